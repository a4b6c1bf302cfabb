"""Whether reports can be checked at all: each configured route has its webhook's secret.

Without one nothing is believed, so that every message would end as "outcome unknown".
"""

from dashboard.providers.anymail_settings import webhook_problems
from dashboard.settings import Settings, SettingsInvalid


def secret_problems(settings: Settings) -> list[str]:
    """Return what keeps reports from being checked, one sentence for each route."""
    problems = webhook_problems(settings)
    if settings.twilio_webhook_url and not settings.twilio_auth_token.get_secret_value():
        problems.append(
            "TWILIO_AUTH_TOKEN is missing, so that the statuses posted to TWILIO_WEBHOOK_URL "
            "cannot be checked and none is believed. Copy it from Twilio's console."
        )
    return problems


def require_secrets(settings: Settings) -> None:
    """Let production start only if reports can be checked.

    Raises:
        SettingsInvalid: a secret is missing; one sentence for each.
    """
    problems = secret_problems(settings)
    if settings.is_production and problems:
        raise SettingsInvalid("\n".join([*problems, "See README, Settings."]))
