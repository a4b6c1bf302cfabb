"""What an answer of Twilio's API, or its absence, is for us."""

import json
from collections.abc import Mapping

import requests
from twilio.base.exceptions import TwilioException

from dashboard.providers.base import Outcome, OutcomeKind, bounded
from dashboard.providers.error_codes import advice_for

NEVER_LEFT = ("NewConnectionError", "NameResolutionError", "ConnectTimeout")


def outcome_of(error: Exception, headers: Mapping[str, str]) -> Outcome:
    """Return the outcome of a call that raised.

    Args:
        error: what the client raised.
        headers: of the answer, in lower case, where there was one.
    """
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return Outcome(OutcomeKind.TRANSIENT, "The API did not answer the connection.")
    if isinstance(error, requests.RequestException):
        return _network(error)
    if isinstance(error, json.JSONDecodeError | ValueError) and not isinstance(
        error, TwilioException
    ):
        return Outcome(OutcomeKind.UNKNOWN, "The API's answer could not be read.")
    return _answered(error, headers)


def _network(error: requests.RequestException) -> Outcome:
    text = str(error)
    if any(word in text for word in NEVER_LEFT):
        return Outcome(OutcomeKind.TRANSIENT, "The API could not be reached.")
    return Outcome(OutcomeKind.UNKNOWN, "The connection was lost before the API answered.")


def _answered(error: Exception, headers: Mapping[str, str]) -> Outcome:
    """Judge an answer by its code, and by its HTTP status where the code says nothing."""
    status = int(getattr(error, "status", 0) or getattr(error, "status_code", 0) or 0)
    code = str(getattr(error, "code", "") or "")
    words = bounded(str(getattr(error, "msg", "") or getattr(error, "detail", "") or error), 500)
    wait = retry_after(headers)
    advice = advice_for(code)
    if advice is not None:
        return Outcome(
            advice.kind,
            detail=f"{code}: {advice.meaning}",
            code=code,
            about_recipient=advice.about_recipient,
            suppress=advice.suppress,
            retry_after_seconds=_later(wait, advice.wait_seconds),
        )
    return Outcome(by_status(status, wait), f"{code or status}: {words}", code=code or str(status))


def _later(one: float | None, other: float | None) -> float | None:
    return max(one or 0, other or 0) or None


def by_status(status: int, wait: float | None) -> OutcomeKind:
    """Return the outcome of an HTTP status without a code that we know."""
    if status in (408, 423, 429) or (wait is not None and status < 500) or (status == 503 and wait):
        return OutcomeKind.TRANSIENT
    if status in (401, 403):
        return OutcomeKind.CONFIG
    if 400 <= status < 500:
        return OutcomeKind.PERMANENT
    return OutcomeKind.UNKNOWN


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, where it is a number."""
    text = headers.get("retry-after", "").strip()
    return float(text) if text.isdigit() else None
