"""Which configured route a webhook address belongs to."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from dashboard.providers.base import Report, WebhookRequest
from dashboard.providers.registry import RouteInvalid, route
from dashboard.settings import Settings

SANDBOX = "sandbox"


@runtime_checkable
class Reporter(Protocol):
    """A route that sends reports to a webhook."""

    name: str

    def verify(self, request: WebhookRequest) -> None:
        """Check that the provider sent it; raises RequestRefused."""
        ...

    def parse(self, request: WebhookRequest) -> Sequence[Report]:
        """Return its reports; raises RequestRefused for a body that is not of its making."""
        ...


def reporter_for(esp: str, settings: Settings) -> Reporter | None:
    """Return the route behind `/webhooks/email/<esp>`, or None where there is none.

    It need not be the route that email goes out by now: reports of earlier messages still come.
    """
    name = SANDBOX if esp == SANDBOX else f"anymail:{esp}"
    if name == SANDBOX and settings.is_production:
        return None
    try:
        found = route(name, settings)
    except RouteInvalid:
        return None
    return found if isinstance(found, Reporter) else None


def sms_reporter(settings: Settings) -> Reporter | None:
    """Return the route behind `/webhooks/twilio/status`: the one that SMS go out by."""
    try:
        found = route(settings.sms_route, settings, channel="sms")
    except RouteInvalid:
        return None
    return found if isinstance(found, Reporter) else None
