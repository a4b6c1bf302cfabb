"""What an answer of an email service, or its absence, is for us: accepted only beyond doubt."""

import re
from collections.abc import Mapping
from typing import Any

import requests
from anymail.exceptions import (
    AnymailConfigurationError,
    AnymailError,
    AnymailInvalidAddress,
    AnymailRecipientsRefused,
    AnymailSerializationError,
    AnymailUnsupportedFeature,
)
from botocore import exceptions as boto

from dashboard.providers.base import Outcome, OutcomeKind, bounded

# Everything that a backend raises for what a service or a network can do.
CALL_FAILURES = (
    AnymailError,
    AnymailConfigurationError,
    boto.BotoCoreError,
    boto.ClientError,
    requests.RequestException,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OSError,
)
_NEVER_LEFT = ("NewConnectionError", "NameResolutionError", "ConnectTimeout", "EndpointConnection")
_WITHOUT_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.NoRegionError,
    boto.InvalidRegionError,
)
_ADDRESS = re.compile(r"[^\s<>\"'(),;:]+@[^\s<>\"'(),;:]+")
_CONFIG_STATUS = frozenset({401, 402, 403, 404, 405})
_TRANSIENT_STATUS = frozenset({408, 423, 425, 429})
# Postmark's own codes: a bad token, a sender signature, an account that may not send.
_POSTMARK_CONFIG = frozenset({10, 400, 401, 405, 412})
_POSTMARK_INACTIVE = 406
_POSTAL_CONFIG = frozenset(
    {"AccessDenied", "InvalidServerAPIKey", "ServerSuspended", "UnauthenticatedFromAddress"}
)
_SES_TRANSIENT = frozenset(
    {"TooManyRequestsException", "ThrottlingException", "Throttling", "LimitExceededException"}
)
_SES_CONFIG = frozenset(
    {
        "AccessDeniedException",
        "AccountSuspendedException",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "MailFromDomainNotVerifiedException",
        "MissingAuthenticationTokenException",
        "NotFoundException",
        "SendingPausedException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


def without_addresses(text: object) -> str:
    """Return a service's words without anybody's address, bounded."""
    return bounded(_ADDRESS.sub("[address]", str(text or "")).strip())


def outcome_of(error: Exception) -> Outcome:
    """Return the outcome of a call that raised."""
    if isinstance(error, AnymailRecipientsRefused):
        return _refused(getattr(error.email_message, "anymail_status", None))
    if isinstance(error, AnymailConfigurationError):
        return Outcome(OutcomeKind.CONFIG, without_addresses(error))
    if isinstance(error, AnymailUnsupportedFeature | AnymailSerializationError):
        return Outcome(OutcomeKind.PERMANENT, f"The service cannot carry it: {_words(error)}")
    if isinstance(error, AnymailInvalidAddress):
        return _permanent(_words(error))
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return _of_ses(response)
    if response is not None:
        return _of_response(response)
    return _without_answer(error)


def _words(error: Exception) -> str:
    return without_addresses(str(error).partition("\n")[0])


def _permanent(detail: str, *, suppress: bool = False, code: str = "") -> Outcome:
    return Outcome(
        OutcomeKind.PERMANENT, detail, about_recipient=True, suppress=suppress, code=code
    )


def outcome_of_status(status: Any, *, report_expected: bool) -> Outcome:
    """Return the outcome of a call that raised nothing, which by itself proves nothing.

    Accepted is: HTTP 2xx, every recipient sent or queued, each with an id.
    """
    answer = getattr(status, "esp_response", None)
    code = getattr(answer, "status_code", 200)
    if not 200 <= code < 300:
        return _of_response(answer)
    recipients = list(getattr(status, "recipients", {}).values())
    words = {one.status for one in recipients}
    if words & {"rejected", "invalid", "failed"} or _will_not_deliver(answer):
        return _refused(status)
    ids = {str(one.message_id) for one in recipients if one.message_id}
    if not recipients or not words <= {"sent", "queued"} or len(ids) != 1:
        return Outcome(OutcomeKind.UNKNOWN, "The service's answer does not say that it has it.")
    if not all(one.message_id for one in recipients):
        return Outcome(OutcomeKind.UNKNOWN, "The service's answer names no message.")
    return Outcome(
        OutcomeKind.ACCEPTED,
        detail=f"{', '.join(sorted(words))}",
        provider_message_id=bare_id(ids.pop()),
        report_expected=report_expected,
    )


def bare_id(identifier: object) -> str:
    """Return a message id without brackets: services give the same one with and without."""
    return str(identifier or "").strip().strip("<>")


def _content(answer: Any) -> Mapping[str, Any]:
    try:
        content = answer.json()
    except (ValueError, AttributeError, RecursionError):
        return {}
    return content if isinstance(content, Mapping) else {}


def _will_not_deliver(answer: Any) -> bool:
    return "will not deliver to these inactive" in str(_content(answer).get("Message", ""))


def _refused(status: Any) -> Outcome:
    """The recipient was refused; a call that the service itself did not take is judged as such."""
    answer = getattr(status, "esp_response", None)
    content = _content(answer)
    words = content.get("Message") or content.get("message") or "The recipient was refused."
    code = content.get("ErrorCode", "")
    inactive = code == _POSTMARK_INACTIVE or _will_not_deliver(answer)
    return _permanent(without_addresses(words), suppress=inactive, code=str(code or ""))


def _of_response(response: Any) -> Outcome:
    """Judge an HTTP answer that is an error, or that could not be read."""
    status = int(response.status_code)
    content = _content(response)
    code = content.get("ErrorCode", content.get("code", content.get("name", "")))
    words = content.get("Message") or content.get("message") or content.get("error") or ""
    detail = f"{status}: {without_addresses(words or response.reason)}"
    wait = retry_after(response.headers)
    kind = by_status(status, wait)
    if "ErrorCode" in content and code in _POSTMARK_CONFIG and kind is OutcomeKind.PERMANENT:
        kind = OutcomeKind.CONFIG
    if status == 200 and content.get("status") in ("error", "parameter-error"):
        return _of_postal(content)
    if status == 409 and "concurrent" in str(code):
        kind = OutcomeKind.TRANSIENT
    if status == 200 and "Magnificent API" in response.text:
        # Mailgun's answer to a wrong domain or region.
        kind = OutcomeKind.CONFIG
    inactive = "ErrorCode" in content and code == _POSTMARK_INACTIVE
    return Outcome(
        kind,
        detail,
        code=bounded(str(code or status), 100),
        retry_after_seconds=wait,
        about_recipient=inactive,
        suppress=inactive,
    )


def _of_postal(content: Mapping[str, Any]) -> Outcome:
    """Judge an error of Postal, which comes as HTTP 200: nothing was taken."""
    data = content.get("data")
    inner = data if isinstance(data, Mapping) else {}
    code = str(inner.get("code", ""))
    kind = OutcomeKind.CONFIG if code in _POSTAL_CONFIG else OutcomeKind.PERMANENT
    return Outcome(kind, without_addresses(f"{code}: {inner.get('message', '')}"), code=code[:100])


def by_status(status: int, wait: float | None) -> OutcomeKind:
    """Return the outcome of an HTTP status.

    A 5xx may have been accepted: with an idempotency key as well it stays unknown, so that the key
    is kept when it is sent again.
    """
    if status in _TRANSIENT_STATUS or (wait is not None and (400 <= status < 500 or status == 503)):
        return OutcomeKind.TRANSIENT
    if status in _CONFIG_STATUS:
        # Also 404: it is about the address of the service or our domain, never about a recipient.
        return OutcomeKind.CONFIG
    return OutcomeKind.PERMANENT if 400 <= status < 500 else OutcomeKind.UNKNOWN


def retry_after(headers: Mapping[str, Any]) -> float | None:
    """Return the seconds of a Retry-After header, where it is a number."""
    lowered = {str(name).lower(): str(value) for name, value in headers.items()}
    text = lowered.get("retry-after", "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 8 else None


def _of_ses(response: Mapping[str, Any]) -> Outcome:
    meta = response.get("ResponseMetadata", {})
    status = int(meta.get("HTTPStatusCode", 0))
    error = response.get("Error", {})
    code = str(error.get("Code", ""))
    wait = retry_after(meta.get("HTTPHeaders", {}))
    kind = by_status(status, wait)
    if code in _SES_TRANSIENT:
        kind = OutcomeKind.TRANSIENT
    elif code in _SES_CONFIG or "not verified" in str(error.get("Message", "")):
        kind = OutcomeKind.CONFIG
    return Outcome(
        kind,
        f"{code or status}: {without_addresses(error.get('Message', ''))}",
        code=bounded(code or str(status), 100),
        retry_after_seconds=wait,
    )


def _without_answer(error: Exception) -> Outcome:
    """Judge a call without an answer: whether the request can have left decides."""
    chain = [error, *_causes(error)]
    text = " ".join(f"{type(one).__name__} {one}" for one in chain)
    if "CERTIFICATE_VERIFY_FAILED" in text or "InvalidURL" in text or "MissingSchema" in text:
        return Outcome(OutcomeKind.CONFIG, "The service's address or certificate is not right.")
    if any(isinstance(one, _WITHOUT_CREDENTIALS) for one in chain):
        return Outcome(OutcomeKind.CONFIG, without_addresses(error))
    if any(word in text for word in _NEVER_LEFT):
        return Outcome(OutcomeKind.TRANSIENT, "The service could not be reached.")
    if any(isinstance(one, requests.RequestException | boto.BotoCoreError) for one in chain):
        return Outcome(OutcomeKind.UNKNOWN, "The connection was lost before the service answered.")
    name = type(error).__name__
    return Outcome(OutcomeKind.UNKNOWN, f"The service's answer could not be read: {name}.")


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    cause = error.__cause__ or error.__context__
    while cause is not None and cause not in found:
        found.append(cause)
        cause = cause.__cause__ or cause.__context__
    return found
