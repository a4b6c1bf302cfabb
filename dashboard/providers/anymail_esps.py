"""Every email service that django-anymail speaks to, as data: names, settings, what it can do.

Imports neither Django nor anymail, so that asking for an unknown one costs nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

BASIC_AUTH = "WEBHOOK_SECRET"
# Settings that every backend takes.
_COMMON = ("API_URL", "SEND_DEFAULTS", "IDNA_ENCODER", BASIC_AUTH)
DAY_SECONDS = 24 * 60 * 60


class Idempotency(StrEnum):
    """How a service takes the key under which it drops a second copy."""

    NONE = ""
    HTTP_HEADER = "http header"
    MESSAGE_HEADER = "message header"


@dataclass(frozen=True, slots=True)
class Esp:
    """One service.

    Attributes:
        module: of anymail's backend and, under the same name, of its webhook view.
        view: the view's class, or empty where the service posts no delivery reports.
        required, optional: settings without `ANYMAIL_<ESP>_`; lower case they are anymail's names.
        secrets: settings that check webhooks; any one of them is enough.
        secret_argument: what anymail's view calls the first secret, where that is not basic auth.
        own_message_id: whether it lets our Message-ID stand.
        shows_others: whether To and Cc may name more people than the recipient.
    """

    name: str
    module: str
    view: str = ""
    required: tuple[str, ...] = ("API_KEY",)
    optional: tuple[str, ...] = ()
    secrets: tuple[str, ...] = (BASIC_AUTH,)
    secret_argument: str = ""
    idempotency: Idempotency = Idempotency.NONE
    idempotency_seconds: float = 0
    own_message_id: bool = False
    shows_others: bool = False
    max_message_bytes: int | None = None

    @property
    def prefix(self) -> str:
        """What its variables start with, after `ANYMAIL_`."""
        return f"{self.name.upper()}_"

    @property
    def settings(self) -> tuple[str, ...]:
        """All its settings, without prefix."""
        return tuple(dict.fromkeys((*self.required, *self.optional, *self.secrets, *_COMMON)))

    def variable(self, setting: str) -> str:
        """Return the environment variable of a setting."""
        return f"ANYMAIL_{self.prefix}{setting}"


_ALL = (
    Esp(
        name="brevo",
        module="brevo",
        view="BrevoTrackingWebhookView",
        optional=("WORKAROUND_DISPLAY_NAME_BUGS", "PREVENT_HEADER_ENCODING_BUGS"),
        idempotency=Idempotency.MESSAGE_HEADER,
        idempotency_seconds=30 * 60,
        max_message_bytes=20 * 1024 * 1024,
    ),
    Esp(
        name="mailersend",
        module="mailersend",
        view="MailerSendTrackingWebhookView",
        required=("API_TOKEN",),
        secrets=("SIGNING_SECRET",),
        secret_argument="signing_secret",  # noqa: S106 - the argument's name, not a secret
    ),
    Esp(
        name="mailgun",
        module="mailgun",
        view="MailgunTrackingWebhookView",
        optional=("SENDER_DOMAIN",),
        secrets=("WEBHOOK_SIGNING_KEY",),
        secret_argument="webhook_signing_key",  # noqa: S106 - the argument's name
        own_message_id=True,
        max_message_bytes=25 * 1024 * 1024,
    ),
    Esp(
        name="mailjet",
        module="mailjet",
        view="MailjetTrackingWebhookView",
        required=("API_KEY", "SECRET_KEY"),
    ),
    Esp(
        name="mailtrap",
        module="mailtrap",
        view="MailtrapTrackingWebhookView",
        required=("API_TOKEN",),
        optional=("SANDBOX_ID",),
        secrets=("TRACKING_SECRET", BASIC_AUTH),
        secret_argument="tracking_secret",  # noqa: S106 - the argument's name
    ),
    Esp(
        name="mandrill",
        module="mandrill",
        view="MandrillCombinedWebhookView",
        optional=("WEBHOOK_URL",),
        secrets=("WEBHOOK_KEY",),
        secret_argument="webhook_key",  # noqa: S106 - the argument's name
    ),
    Esp(
        name="postal",
        module="postal",
        view="PostalTrackingWebhookView",
        required=("API_KEY", "API_URL"),
        secrets=("WEBHOOK_KEY",),
        secret_argument="webhook_key",  # noqa: S106 - the argument's name
    ),
    Esp(
        name="postmark",
        module="postmark",
        view="PostmarkTrackingWebhookView",
        required=("SERVER_TOKEN",),
        optional=("MESSAGE_STREAM",),
        own_message_id=True,
        max_message_bytes=10 * 1024 * 1024,
    ),
    Esp(
        name="resend",
        module="resend",
        view="ResendTrackingWebhookView",
        optional=("VERIFY_ATTACHMENT_EXTENSIONS",),
        secrets=("SIGNING_SECRET",),
        secret_argument="signing_secret",  # noqa: S106 - the argument's name
        idempotency=Idempotency.HTTP_HEADER,
        idempotency_seconds=DAY_SECONDS,
        max_message_bytes=40 * 1024 * 1024,
    ),
    Esp(
        name="scaleway",
        module="scaleway",
        required=("SECRET_KEY", "PROJECT_ID"),
        optional=("REGION",),
        secrets=(),
    ),
    Esp(
        name="sendgrid",
        module="sendgrid",
        view="SendGridTrackingWebhookView",
        optional=("GENERATE_MESSAGE_ID",),
        secrets=("TRACKING_WEBHOOK_VERIFICATION_KEY", BASIC_AUTH),
        secret_argument="tracking_webhook_verification_key",  # noqa: S106 - the argument's name
        own_message_id=True,
        max_message_bytes=30 * 1024 * 1024,
    ),
    Esp(
        name="ses",
        module="amazon_ses",
        view="AmazonSESTrackingWebhookView",
        required=("REGION",),
        optional=(
            "ACCESS_KEY_ID",
            "SECRET_ACCESS_KEY",
            "SESSION_TOKEN",
            "CONFIGURATION_SET_NAME",
            "MESSAGE_TAG_NAME",
        ),
        # Its messages are signed by Amazon; what proves that they are ours is the topic.
        secrets=("TOPIC_ARNS",),
        own_message_id=True,
        shows_others=True,
        max_message_bytes=40 * 1024 * 1024,
    ),
    Esp(
        name="sparkpost",
        module="sparkpost",
        view="SparkPostTrackingWebhookView",
        optional=("SUBACCOUNT",),
    ),
    Esp(
        name="unisender_go",
        module="unisender_go",
        view="UnisenderGoTrackingWebhookView",
        required=("API_KEY", "API_URL"),
        optional=("GENERATE_MESSAGE_ID", "WORKAROUND_DISPLAY_NAME_BUGS"),
        # It signs its callbacks with the key that we send with.
        secrets=("API_KEY",),
        secret_argument="api_key",  # noqa: S106 - the argument's name
    ),
)
ESPS: Mapping[str, Esp] = {esp.name: esp for esp in _ALL}
