"""What an event of anymail is in our words, with what anymail does not say read from the raw event.

Words of a service are untrusted: bounded, and without anybody's address.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dashboard.clock import now
from dashboard.providers.anymail_outcomes import bare_id, without_addresses
from dashboard.providers.base import Event, Report, bounded
from dashboard.providers.tracking import TrackedReport, TrackingStrategy

EVENTS: Mapping[str, Event] = {
    "queued": Event.IN_FLIGHT,
    "sent": Event.IN_FLIGHT,
    "deferred": Event.DEFERRED,
    "delivered": Event.DELIVERED,
    "bounced": Event.FAILED,
    "rejected": Event.FAILED,
    "failed": Event.FAILED,
    "opened": Event.OPENED,
    "clicked": Event.CLICKED,
    "complained": Event.COMPLAINED,
    "unsubscribed": Event.UNSUBSCRIBED,
}
# What the service itself calls the event, for those that anymail does not know.
WORDS: Mapping[tuple[str, str], Event] = {
    ("ses", "deliverydelay"): Event.DEFERRED,
    ("resend", "email.delivery_delayed"): Event.DEFERRED,
    ("resend", "email.scheduled"): Event.IN_FLIGHT,
    ("resend", "email.failed"): Event.FAILED,
    ("resend", "email.suppressed"): Event.FAILED,
}
_HARD = frozenset(
    [
        "hardbounce",
        "bademailaddress",
        "permanent",
        "hard_bounce",
        "hard_bounced",
        "invalid_email",
        "hardfail",
    ]
)
_HIDDEN = frozenset(
    [
        "auth",
        "authorization",
        "commonheaders",
        "content",
        "from",
        "headers",
        "html",
        "ip",
        "link",
        "message-headers",
        "original_link",
        "password",
        "recipient_address",
        "remote_mta_ip",
        "sending_ip",
        "sender",
        "signature",
        "sourceip",
        "source",
        "subject",
        "text",
        "to",
        "token",
        "url",
        "useragent",
        "user_agent",
        "email",
        "recipient",
        "recipients",
        "destination",
        "emailaddress",
        "envelope",
        "geolocation",
        "geo",
        "client-info",
        "originallink",
        "raw_rcpt_to",
        "rcpt_to",
    ]
)
_ENHANCED = re.compile(r"\b([245]\.\d{1,3}\.\d{1,3})\b")
_BASIC = re.compile(r"(?:^|[\s:;(-])([245]\d\d)(?:[\s:;,.-]|$)")
_LARGEST, _DEEPEST, _MOST = 300, 4, 40
_EARLIEST = datetime(2005, 1, 1, tzinfo=UTC)
_LATEST = timedelta(days=2)


def report_of(event: Any, raw: object, provider: str, strategy: TrackingStrategy) -> Report:
    """Return the report of one event; raises what a malformed one makes Python raise.

    Args:
        event: as anymail has normalised it.
        raw: the event as the service sent it.
    """
    esp = provider.partition(":")[2]
    word = word_of(raw)
    kind = WORDS.get((esp, word.lower()), EVENTS.get(str(event.event_type), Event.OTHER))
    said = _said(event, raw, esp)
    status = _status(raw, said)
    tags = [event.tags] if isinstance(event.tags, str) else [t for t in event.tags or () if t]
    message_id = bare_id(event.message_id)
    tracked = TrackedReport(
        metadata=event.metadata if isinstance(event.metadata, Mapping) else {},
        tags=tuple(map(str, tags)),
        provider_message_id=message_id,
    )
    return Report(
        provider=provider,
        event=kind,
        provider_message_id=message_id,
        recipient=_recipient(event, raw, esp),
        occurred_at=_moment(_amazons(raw) if esp == "ses" else event.timestamp),
        reason=_reason(event, said, kind),
        code=status,
        permanent=kind is Event.FAILED and _is_permanent(event, raw, word, status),
        key=strategy.find_key(tracked),
        raw=_kept(raw, word or str(event.event_type), event.click_url),
    )


def unreadable(raw: object, provider: str) -> Report:
    """Return the report that keeps an event which cannot be read, for people to see."""
    digest = hashlib.sha256(repr(raw).encode("utf-8", "replace")).hexdigest()[:16]
    return Report(
        provider=provider,
        event=Event.OTHER,
        reason="This event could not be read.",
        raw=_kept(raw, f"unreadable {digest}", None),
    )


def word_of(raw: object) -> str:
    """Return what the service itself calls an event."""
    if not isinstance(raw, Mapping):
        return ""
    inner = raw.get("event-data", raw)
    inner = inner if isinstance(inner, Mapping) else raw
    names = ("eventType", "notificationType", "RecordType", "type", "event", "status")
    words = (inner.get(name) for name in names)
    return next((bounded(word, 60) for word in words if isinstance(word, str) and word), "")


def _said(event: Any, raw: object, esp: str) -> str:
    """Return the receiving server's words, or else the service's."""
    words = [event.description, event.mta_response]
    if esp == "ses" and not event.mta_response:
        delay = _inside(raw, "deliveryDelay")
        delayed = delay.get("delayedRecipients")
        first = delayed[0] if isinstance(delayed, list) and delayed else {}
        words = [delay.get("delayType") or event.description]
        words.append(first.get("diagnosticCode") if isinstance(first, Mapping) else "")
    if esp == "resend" and not event.description:
        data = _inside(raw, "data")
        reasons = (_inside(data, name) for name in ("failed", "suppressed", "delivery_delayed"))
        words += [one.get("reason") or one.get("message") for one in reasons]
    return ": ".join(dict.fromkeys(str(word) for word in words if word))


def _inside(raw: object, name: str) -> Mapping[str, Any]:
    found = raw.get(name) if isinstance(raw, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _reason(event: Any, said: str, kind: Event) -> str:
    if kind not in (Event.FAILED, Event.DEFERRED, Event.COMPLAINED):
        return ""
    return without_addresses(said or event.reject_reason or word_of(event.esp_event))


def _status(raw: object, said: str) -> str:
    """Return the SMTP status that a report carries: `5.1.1`, else `550`, else empty."""
    given = _first(raw, lambda name: name in ("status", "code", "response_code", "error_code"))
    text = f"{said} {given}"
    found = _ENHANCED.search(text) or _BASIC.search(text)
    return found[1] if found else ""


def _first(raw: object, wanted: Callable[[str], bool], deep: int = _DEEPEST) -> str:
    """Return all short values under the wanted names, joined."""
    if deep == 0:
        return ""
    if isinstance(raw, list):
        return " ".join(filter(None, (_first(one, wanted, deep - 1) for one in raw[:_MOST])))
    if not isinstance(raw, Mapping):
        return ""
    own = [str(value)[:20] for name, value in raw.items() if wanted(str(name).lower())]
    return " ".join([*own, *filter(None, (_first(v, wanted, deep - 1) for v in raw.values()))])


def _is_permanent(event: Any, raw: object, word: str, status: str) -> bool:
    """Say whether trying again is pointless: hard by the service's word or by status 5.x.x."""
    marks = _first(raw, lambda name: name in ("type", "bouncetype", "severity", "status", "event"))
    hard = _first(raw, lambda name: name == "hard_bounce")
    words = {*marks.lower().split(), word.lower()}
    if words & _HARD or hard.lower().startswith("true") or status.startswith("5"):
        # Mailgun calls the end of its own tries permanent as well, whatever the server said.
        return not status.startswith("4")
    return str(event.event_type) == "rejected"


def _recipient(event: Any, raw: object, esp: str) -> str:
    """Return whom a report is about, or empty where it is about the whole message.

    Resend does not say which of several; each of our messages has one.
    """
    shown = _inside(raw, "data").get("to")
    if esp == "resend" and isinstance(shown, list) and len(shown) > 1:
        return ""
    return bounded(str(event.recipient or ""), 320)


def _amazons(raw: object) -> datetime | None:
    """Return when an event of SES was: anymail gives the time at which SNS published it.

    The same event through two topics is one event.
    """
    names = ("delivery", "bounce", "complaint", "deliveryDelay", "open", "click", "mail")
    given = (_inside(raw, name).get("timestamp") for name in names)
    text = next((one for one in given if isinstance(one, str)), "")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def _moment(moment: datetime | None) -> datetime | None:
    """Return when it happened; seconds taken for milliseconds are put right, nonsense is left out.

    Brevo sends both.
    """
    if moment is None:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    latest = now() + _LATEST
    if _EARLIEST < aware < latest:
        return aware
    thousandfold = aware.timestamp() * 1000
    if not _EARLIEST.timestamp() < thousandfold < latest.timestamp():
        return None
    return datetime.fromtimestamp(thousandfold, UTC)


def _kept(raw: object, word: str, click_url: object) -> Mapping[str, object]:
    """Return the raw event to keep, with what tells two events of one second apart."""
    kept = _redacted(raw, _DEEPEST)
    content = dict(kept) if isinstance(kept, dict) else {"event": kept}
    if click_url:
        # Links in messages are secrets often enough: known again, but not kept.
        content["click_url"] = hashlib.sha256(str(click_url).encode()).hexdigest()[:16]
    return {**content, "status": word}


def _redacted(raw: object, deep: int) -> object:
    if isinstance(raw, Mapping):
        if deep == 0:
            return "…"
        pairs: Sequence[tuple[Any, Any]] = list(raw.items())[:_MOST]
        return {
            bounded(without_addresses(name), 100): _redacted(value, deep - 1)
            for name, value in pairs
            if str(name).lower() not in _HIDDEN
        }
    if isinstance(raw, list):
        return [_redacted(one, deep - 1) for one in raw[:_MOST]] if deep else "…"
    if raw is None or isinstance(raw, bool | float):
        return raw
    return bounded(without_addresses(raw), _LARGEST)
