"""Routes by name: which provider a configured way out is, built once per process.

A new route is a factory in one of the two tables. Does not choose between routes.
"""

import threading
from collections.abc import Callable, Mapping
from importlib import import_module

from dashboard.providers.anymail_settings import AnymailInvalid, configuration
from dashboard.providers.base import Provider
from dashboard.providers.null import NullProvider
from dashboard.providers.sandbox import SandboxEmailProvider
from dashboard.providers.sandbox_reports import report_secret
from dashboard.providers.smtp import SmtpProvider
from dashboard.providers.smtp_url import SmtpUrlInvalid
from dashboard.providers.tracking import StrategyInvalid
from dashboard.settings import Settings

# A call ends by itself before the reconciler takes its worker for hung.
_SHARE_OF_DEADLINE = 0.8

Factory = Callable[[Settings, str], Provider]


class RouteInvalid(Exception):
    """There is no such route, or its settings cannot be used; the message says what to change."""


def _smtp(settings: Settings, _argument: str) -> Provider:
    url = settings.smtp_url.get_secret_value()
    if not url:
        raise RouteInvalid("SMTP_URL is missing, which the route smtp needs; see README, Settings.")
    try:
        return SmtpProvider(
            url, deadline_seconds=settings.send_deadline_seconds * _SHARE_OF_DEADLINE
        )
    except SmtpUrlInvalid as invalid:
        raise RouteInvalid(str(invalid)) from None
    except OSError as error:
        raise RouteInvalid(f"The ca file of SMTP_URL cannot be read: {error.strerror}.") from None


def _sandbox_email(settings: Settings, _argument: str) -> Provider:
    return SandboxEmailProvider(
        settings.data_dir,
        secret=report_secret(settings.secret_key.get_secret_value()),
        deadline_seconds=settings.send_deadline_seconds * _SHARE_OF_DEADLINE,
    )


def _null(_settings: Settings, _argument: str) -> Provider:
    return NullProvider()


def _anymail(settings: Settings, argument: str) -> Provider:
    try:
        found = configuration(argument, settings)
        # By path: Django and anymail are for those who send through an email service.
        provider: Provider = import_module("dashboard.providers.anymail_bridge").AnymailProvider(
            found
        )
    except (AnymailInvalid, StrategyInvalid) as invalid:
        raise RouteInvalid(str(invalid)) from None
    return provider


def _twilio(settings: Settings, _argument: str) -> Provider:
    token = settings.twilio_auth_token.get_secret_value()
    if not settings.twilio_account_sid or not token:
        raise RouteInvalid("TWILIO_ACCOUNT_SID and TWILIO_AUTH_TOKEN are needed; see README.")
    if not settings.twilio_from and not settings.twilio_messaging_service_sid:
        raise RouteInvalid("TWILIO_FROM or TWILIO_MESSAGING_SERVICE_SID is needed; see README.")
    # By path: the client costs a third of a second, which only those who send SMS shall pay.
    twilio = import_module("dashboard.providers.twilio")
    account = twilio.Account(
        account_sid=settings.twilio_account_sid,
        auth_token=token,
        second_auth_token=settings.twilio_auth_token_second.get_secret_value(),
        sender=settings.twilio_from,
        messaging_service_sid=settings.twilio_messaging_service_sid,
        webhook_url=settings.twilio_webhook_url,
        api_url=settings.twilio_api_url,
    )
    provider: Provider = twilio.TwilioProvider(account)
    return provider


def _sandbox_sms(settings: Settings, _argument: str) -> Provider:
    stand_in = import_module("dashboard.providers.sandbox_sms_route")
    provider: Provider = stand_in.SandboxSmsProvider(
        settings.data_dir,
        secret_key=settings.secret_key.get_secret_value(),
        base_url=settings.public_base_url,
    )
    return provider


# By the name before the colon: `anymail:postmark` is the factory `anymail` with `postmark`.
EMAIL_ROUTES: dict[str, Factory] = {
    "anymail": _anymail,
    "smtp": _smtp,
    "sandbox": _sandbox_email,
    "null": _null,
}
SMS_ROUTES: dict[str, Factory] = {"null": _null, "sandbox": _sandbox_sms, "twilio": _twilio}

_built: dict[tuple[str, str, Settings], Provider] = {}
_lock = threading.Lock()


def email_route(settings: Settings) -> Provider:
    """Return the route that email goes out by.

    Raises:
        RouteInvalid: see there.
    """
    return route(settings.email_route, settings)


def sms_route(settings: Settings) -> Provider:
    """Return the route that SMS go out by.

    Raises:
        RouteInvalid: see there.
    """
    return route(settings.sms_route, settings, channel="sms")


def route(name: str, settings: Settings, *, channel: str = "email") -> Provider:
    """Return the route called `name`; the same object for the same settings in one process.

    Email and SMS have route names in common, hence the channel: `email` or `sms`.

    Raises:
        RouteInvalid: see there.
    """
    key = (channel, name, settings)
    with _lock:
        if key not in _built:
            _built[key] = _build(name, settings, channel)
        return _built[key]


def _build(name: str, settings: Settings, channel: str) -> Provider:
    factories, variable = _table(channel)
    family, _, argument = name.partition(":")
    if family not in factories:
        available = ", ".join(sorted(factories))
        raise RouteInvalid(
            f"{variable} is {name!r}, and there is no such route. Available: {available}."
        )
    return factories[family](settings, argument)


def _table(channel: str) -> tuple[Mapping[str, Factory], str]:
    if channel == "sms":
        return SMS_ROUTES, "WIREROOM_SMS_PROVIDER"
    return EMAIL_ROUTES, "WIREROOM_EMAIL_PROVIDER"


def close_all() -> None:
    """Close every route that was built; they can be built again. For the end of a process."""
    with _lock:
        providers = list(_built.values())
        _built.clear()
    for provider in providers:
        provider.close()
