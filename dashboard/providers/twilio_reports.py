"""Status callbacks of Twilio: is it really them, and what does it say."""

import re
from collections.abc import Mapping
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit

from twilio.request_validator import RequestValidator

from dashboard.providers.base import Event, Report, RequestRefused, WebhookRequest, bounded
from dashboard.providers.error_codes import advice_for

EVENTS: Mapping[str, Event] = {
    "accepted": Event.IN_FLIGHT,
    "scheduled": Event.IN_FLIGHT,
    "queued": Event.IN_FLIGHT,
    "sending": Event.IN_FLIGHT,
    "sent": Event.IN_FLIGHT,
    "delivered": Event.DELIVERED,
    "read": Event.DELIVERED,
    "undelivered": Event.FAILED,
    "failed": Event.FAILED,
    "canceled": Event.CANCELLED,
}
LARGEST_FIELD = 4000
# Failures that another day may cure: an unreachable handset, a carrier without a reason.
WORTH_ANOTHER_TRY = frozenset({"30003", "30008"})
_DISPATCH = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_ATTEMPT = re.compile(r"\d{1,6}")


def callback_url(webhook_url: str, dispatch_id: str, attempt: int) -> str:
    """Return the address for status callbacks with our key, each parameter set exactly once."""
    parts = urlsplit(webhook_url)
    kept = [
        (name, value)
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if name not in ("dispatch", "attempt")
    ]
    query = urlencode([*kept, ("dispatch", dispatch_id), ("attempt", str(attempt))])
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def verify(
    request: WebhookRequest, *, webhook_url: str, account_sid: str, tokens: tuple[str, ...]
) -> None:
    """Check the signature over the configured address, the raw query and all form fields.

    The request's own URL is never used: proxies and frameworks rewrite it.

    Raises:
        RequestRefused: it was not signed by the account, or it is not of the form that it signs.
    """
    headers = {name.lower(): value for name, value in request.headers.items()}
    if not headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise RequestRefused("The body is not a form.")
    fields = _fields(request.body)
    signature = headers.get("x-twilio-signature", "")
    parts = urlsplit(webhook_url)
    url = urlunsplit((parts.scheme, parts.netloc, parts.path, request.query_string, ""))
    if not signature or not any(_fits(token, url, fields, signature) for token in tokens if token):
        raise RequestRefused("The signature is missing or does not fit.")
    if fields.get("AccountSid", [""])[0] != account_sid:
        raise RequestRefused("It is of another account.")


def _fits(token: str, url: str, fields: Mapping[str, list[str]], signature: str) -> bool:
    params = {name: values if len(values) > 1 else values[0] for name, values in fields.items()}
    return bool(RequestValidator(token).validate(url, params, signature))


def _fields(body: bytes) -> dict[str, list[str]]:
    try:
        text = body.decode("utf-8")
        fields = parse_qs(text, keep_blank_values=True, max_num_fields=200, strict_parsing=False)
    except (UnicodeDecodeError, ValueError) as error:
        raise RequestRefused("The form cannot be read.") from error
    if any("\x00" in one or len(one) > LARGEST_FIELD for many in fields.values() for one in many):
        raise RequestRefused("A field is too long or has a NUL.")
    return fields


def parse(request: WebhookRequest, provider: str) -> list[Report]:
    """Return the one report of a verified callback.

    Raises:
        RequestRefused: it names no message or no status, or its key cannot be one of ours.
    """
    fields = {name: values[0] for name, values in _fields(request.body).items()}
    sid = fields.get("MessageSid") or fields.get("SmsSid", "")
    status = fields.get("MessageStatus") or fields.get("SmsStatus", "")
    if not sid or not status:
        raise RequestRefused("It names no message or no status.")
    return [report_of(sid, status, fields.get("ErrorCode", ""), provider, _key(request), fields)]


def report_of(
    sid: str,
    status: str,
    code: str,
    provider: str,
    key: str = "",
    raw: Mapping[str, object] | None = None,
) -> Report:
    """Return what a status of a message is in our words; unknown ones are recorded as they are."""
    event = EVENTS.get(status, Event.OTHER)
    advice = advice_for(code)
    reason = ""
    if event is Event.FAILED:
        reason = f"{code}: {advice.meaning}" if advice else f"{status}, code {code or 'unknown'}"
    kept = {
        name: bounded(str(value), 200)
        for name, value in (raw or {}).items()
        if name not in ("To", "From", "Body")
    }
    return Report(
        provider=provider,
        event=event,
        provider_message_id=sid,
        reason=reason,
        code=code,
        permanent=event is Event.FAILED and code not in WORTH_ANOTHER_TRY,
        key=key,
        raw={**kept, "status": status},
    )


def _key(request: WebhookRequest) -> str:
    query = parse_qs(request.query_string, keep_blank_values=True)
    dispatch = query.get("dispatch", [""])[0]
    attempt = query.get("attempt", [""])[0]
    if not dispatch and not attempt:
        return ""
    if not _DISPATCH.fullmatch(dispatch) or not _ATTEMPT.fullmatch(attempt):
        raise RequestRefused("Its key is not one of ours.")
    return f"{dispatch}.{attempt}"
