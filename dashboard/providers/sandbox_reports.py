"""Delivery reports of the sandbox, as it posts them and as the webhook reads them back.

The body is JSON; the header `X-Wireroom-Signature: t=<unix seconds>,v1=<hex>` is an HMAC-SHA256
over time and body with a key made from `SECRET_KEY`. Does not post: see `sandbox_poster`.
"""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from dashboard.clock import now
from dashboard.providers.base import Event, Report, RequestRefused, WebhookRequest, bounded

WEBHOOK_PATH = "/webhooks/email/sandbox"
SIGNATURE_HEADER = "X-Wireroom-Signature"
_FRESH_FOR = timedelta(hours=24)
_EVENTS = {str(event): event for event in Event}
_PURPOSE = b"wireroom sandbox reports v1"


@dataclass(frozen=True, slots=True)
class SandboxEvent:
    """One thing to report about one captured message.

    Attributes:
        message_id: the id under which the message was captured; the accepted outcome has it too.
        key: the tracking value that came with the message, or empty.
    """

    event: Event
    message_id: str
    recipient: str
    occurred_at: datetime
    key: str = ""
    reason: str = ""
    code: str = ""
    permanent: bool = False


def report_secret(secret_key: str) -> bytes:
    """Return the key that signs reports, made from the installation's `SECRET_KEY`."""
    return hmac.new(secret_key.encode(), _PURPOSE, hashlib.sha256).digest()


def body_of(events: list[SandboxEvent]) -> bytes:
    """Return the request body that carries `events`."""
    written = [
        {
            "event": str(event.event),
            "message_id": event.message_id,
            "recipient": event.recipient,
            "occurred_at": event.occurred_at.isoformat(),
            "key": event.key,
            "reason": event.reason,
            "code": event.code,
            "permanent": event.permanent,
        }
        for event in events
    ]
    return json.dumps({"events": written}, ensure_ascii=False).encode()


def sign(secret: bytes, body: bytes, at: datetime) -> str:
    """Return the signature header's value for `body`, sent at `at`."""
    seconds = int(at.timestamp())
    return f"t={seconds},v1={_digest(secret, seconds, body)}"


def _digest(secret: bytes, seconds: int, body: bytes) -> str:
    return hmac.new(secret, str(seconds).encode() + b"." + body, hashlib.sha256).hexdigest()


def verify(request: WebhookRequest, secret: bytes, at: datetime | None = None) -> None:
    """Check signature and age of a request.

    Raises:
        RequestRefused: the sink of this installation did not send it, or not within 24 hours.
    """
    given = {name.lower(): value for name, value in request.headers.items()}
    signature = given.get(SIGNATURE_HEADER.lower(), "")
    parts = dict(piece.partition("=")[::2] for piece in signature.split(","))
    stamp, digest = parts.get("t", ""), parts.get("v1", "")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 12):
        raise RequestRefused("The signature is missing or not of the form t=…,v1=….")
    if not hmac.compare_digest(_digest(secret, int(stamp), request.body).encode(), digest.encode()):
        raise RequestRefused("The signature does not fit: another SECRET_KEY, or a changed body.")
    if abs((at or now()).timestamp() - int(stamp)) > _FRESH_FOR.total_seconds():
        raise RequestRefused("The request was signed more than 24 hours from now.")


def parse(request: WebhookRequest) -> list[Report]:
    """Return the reports of a verified request; what cannot be read costs only itself.

    Raises:
        RequestRefused: the body is not of our making at all.
    """
    try:
        content = json.loads(request.body)
    except (ValueError, RecursionError):
        raise RequestRefused("The body is not JSON.") from None
    events = content.get("events") if isinstance(content, dict) else None
    if not isinstance(events, list):
        raise RequestRefused("The body has no list of events.")
    return [_report(event) for event in events if isinstance(event, dict)]


def _report(event: Mapping[str, object]) -> Report:
    def text(name: str) -> str:
        value = event.get(name)
        return bounded(value) if isinstance(value, str) else ""

    return Report(
        provider="sandbox",
        event=_EVENTS.get(text("event"), Event.OTHER),
        provider_message_id=text("message_id"),
        recipient=text("recipient"),
        occurred_at=_time(text("occurred_at")),
        reason=text("reason"),
        code=text("code"),
        permanent=event.get("permanent") is True,
        key=text("key"),
        raw={name: text(name) for name in ("event", "message_id", "occurred_at", "key", "reason")},
    )


def _time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
