"""What `ANYMAIL_…` says about one email service: checked, typed, ready for its backend.

Imports neither Django nor anymail. Does not connect.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from dashboard.providers.anymail_esps import BASIC_AUTH, ESPS, Esp
from dashboard.settings import Settings, anymail_environment

FAMILY = "anymail"
CONNECT_SECONDS = 5.0
READ_SECONDS = 35.0
BOOLEANS = frozenset(
    {
        "GENERATE_MESSAGE_ID",
        "PREVENT_HEADER_ENCODING_BUGS",
        "VERIFY_ATTACHMENT_EXTENSIONS",
        "WORKAROUND_DISPLAY_NAME_BUGS",
    }
)
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})
_SNS_TOPIC = re.compile(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]{1,256}")


class AnymailInvalid(Exception):
    """The settings of an email service cannot be used; the message names the variable."""


@dataclass(frozen=True)
class Configuration:
    """One service and how it is used.

    Attributes:
        values: settings by name without prefix, as given.
        basic_auth: `user:password` pairs, one of which its webhooks must use.
        secret: what else checks them: a signing key, or SNS topics separated by commas.
        webhook_url: the address of its webhook as the service knows it; Mandrill signs it.
        timeouts: seconds for connecting, and for an answer.
    """

    esp: Esp
    values: Mapping[str, str] = field(repr=False)
    basic_auth: tuple[str, ...] = field(default=(), repr=False)
    secret: str = field(default="", repr=False)
    webhook_url: str = field(default="", repr=False)
    tracking: str = "metadata"
    timeouts: tuple[float, float] = (CONNECT_SECONDS, READ_SECONDS)
    send_defaults: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The route's name."""
        return f"{FAMILY}:{self.esp.name}"

    @property
    def checks_webhooks(self) -> bool:
        """Whether there is something to check the service's reports with."""
        return bool(self.esp.view) and _has_secret(self)

    def flag(self, setting: str) -> bool | None:
        """Return a yes-or-no setting, None where it is not given."""
        given = self.values.get(setting, "").lower()
        return given in _TRUE if given else None


def configuration(name: str, settings: Settings) -> Configuration:
    """Read the settings of the service called `name`.

    Raises:
        AnymailInvalid: there is no such service, or a setting is missing, unknown or not readable.
    """
    esp = ESPS.get(name)
    if esp is None:
        known = ", ".join(sorted(ESPS))
        raise AnymailInvalid(f"There is no email service {name!r}. Available: {known}.")
    environment = anymail_environment()
    values = {
        setting.removeprefix(esp.prefix): value
        for setting, value in environment.items()
        if setting.startswith(esp.prefix)
    }
    _check(esp, values)
    path = f"/webhooks/email/{esp.name}"
    secret = _secret(esp, values)
    return Configuration(
        esp=esp,
        values=values,
        basic_auth=_basic_auth(esp, values, "" if secret else environment.get(BASIC_AUTH, "")),
        secret=secret,
        webhook_url=values.get("WEBHOOK_URL", settings.public_base_url.rstrip("/") + path),
        tracking=settings.email_tracking_strategy,
        send_defaults=_json(esp, values, "SEND_DEFAULTS"),
    )


def _check(esp: Esp, values: Mapping[str, str]) -> None:
    missing = [esp.variable(one) for one in esp.required if not values.get(one)]
    if missing:
        raise AnymailInvalid(f"{', '.join(missing)} must be set; see README, Settings.")
    unknown = [esp.variable(one) for one in values if one not in esp.settings]
    if unknown:
        taken = ", ".join(esp.variable(one) for one in esp.settings)
        raise AnymailInvalid(f"{', '.join(unknown)} is unknown. {esp.name} takes {taken}.")
    for setting in BOOLEANS & set(values):
        if values[setting].lower() not in _TRUE | _FALSE:
            raise AnymailInvalid(f"{esp.variable(setting)} must be true or false.")
    if "API_URL" in values and urlsplit(values["API_URL"]).scheme not in ("http", "https"):
        raise AnymailInvalid(f"{esp.variable('API_URL')} must begin with http:// or https://.")
    for topic in _parts(values.get("TOPIC_ARNS", "")):
        if not _SNS_TOPIC.fullmatch(topic):
            raise AnymailInvalid(f"{esp.variable('TOPIC_ARNS')} has what is not an SNS topic ARN.")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _json(esp: Esp, values: Mapping[str, str], setting: str) -> Mapping[str, object]:
    try:
        content = json.loads(values.get(setting, "{}"))
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise AnymailInvalid(f"{esp.variable(setting)} must be a JSON object.")
    return content


def _basic_auth(esp: Esp, values: Mapping[str, str], shared: str) -> tuple[str, ...]:
    """Return the pairs that are asked for: its own, else the shared ones if it cannot sign.

    Raises:
        AnymailInvalid: there is one that is not `user:password`.
    """
    given = values.get(BASIC_AUTH, shared if BASIC_AUTH in esp.secrets else "")
    pairs = tuple(_parts(given))
    if not all(user and password for user, _, password in (one.partition(":") for one in pairs)):
        raise AnymailInvalid(f"ANYMAIL_{BASIC_AUTH} must be user:password.")
    return pairs


def _secret(esp: Esp, values: Mapping[str, str]) -> str:
    """Return the secret that is not basic auth."""
    return next((values[one] for one in esp.secrets if one != BASIC_AUTH and one in values), "")


def _has_secret(found: Configuration) -> bool:
    return bool(found.secret or (BASIC_AUTH in found.esp.secrets and found.basic_auth))


def missing_secret(esp: Esp) -> str:
    """Return the sentence for a service whose reports cannot be checked."""
    names = " or ".join(esp.variable(one) for one in esp.secrets)
    if BASIC_AUTH in esp.secrets:
        names += f" (or ANYMAIL_{BASIC_AUTH} for all services)"
    return (
        f"{names} is missing, so that reports of {FAMILY}:{esp.name} cannot be checked and none is "
        "believed. Set it, and give the service the same."
    )


def webhook_problems(settings: Settings) -> list[str]:
    """Return what keeps the configured email route's reports from being checked, as sentences.

    Production refuses to start with one of these; elsewhere mail goes out and is at most `sent`.
    """
    family, _, name = settings.email_route.partition(":")
    if family != FAMILY:
        return []
    try:
        found = configuration(name, settings)
    except AnymailInvalid as invalid:
        return [str(invalid)]
    return [] if found.checks_webhooks or not found.esp.view else [missing_secret(found.esp)]
