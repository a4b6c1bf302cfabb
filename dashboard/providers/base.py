"""The port to everything that can carry a message, in our words.

A provider takes and returns the frozen dataclasses of this module and knows neither the database
nor the models. It never retries: which next step an outcome needs is decided in
`dashboard.dispatch`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class OutcomeKind(StrEnum):
    """What came of one call; five, because they need five different next steps."""

    ACCEPTED = "accepted"
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    CONFIG = "config"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one hand-over.

    Attributes:
        kind: the next step it needs.
        detail: the provider's own words, for the operator; no secret, at most 2,000 characters.
        provider_message_id: the id under which the provider knows the message, if it gave one.
        report_expected: for `accepted`, whether a delivery report will come (awaiting, else sent).
        retry_after_seconds: not earlier than this, where the provider or the protocol says so.
        code: the provider's own error code or reply code, as text.
        about_recipient: whether the failure is about this recipient; others count towards pausing
            the route.
        suppress: whether further messages to this recipient are pointless.
    """

    kind: OutcomeKind
    detail: str = ""
    provider_message_id: str = ""
    report_expected: bool = False
    retry_after_seconds: float | None = None
    code: str = ""
    about_recipient: bool = False
    suppress: bool = False


@dataclass(frozen=True, slots=True)
class File:
    """One attachment as bytes; `content_id` (without brackets) marks an inline one."""

    filename: str
    content_type: str
    content: bytes
    content_id: str = ""


@dataclass(frozen=True, slots=True)
class Email:
    """One email to one recipient, rendered.

    Attributes:
        recipient: the envelope recipient, ASCII domain (punycode), and nobody else's.
        sender: the From header: an address, or `Display Name <address>`.
        to, cc: what the header shows; may name more people than the recipient. Bcc never appears.
        message_id: the Message-ID with brackets, stable over the attempts of a dispatch.
        headers: additional ones, already checked at intake.
    """

    recipient: str
    sender: str
    subject: str
    text: str = ""
    html: str = ""
    to: tuple[str, ...] = ()
    cc: tuple[str, ...] = ()
    reply_to: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    message_id: str = ""
    files: tuple[File, ...] = ()


@dataclass(frozen=True, slots=True)
class Sms:
    """One text message to one E.164 number."""

    recipient: str
    body: str
    sender: str = ""
    media_urls: tuple[str, ...] = ()
    validity_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Key:
    """What ties a provider's later report to us.

    Attributes:
        dispatch_id, attempt: the attempt this call is.
        idempotency: stays the same over attempts while an earlier one may have arrived.
    """

    dispatch_id: str
    attempt: int
    idempotency: str

    @property
    def tracking(self) -> str:
        """The value a provider gives back with its reports: `<dispatch id>.<attempt>`."""
        return f"{self.dispatch_id}.{self.attempt}"


class Event(StrEnum):
    """What a report says, normalised over all providers."""

    IN_FLIGHT = "in_flight"
    DEFERRED = "deferred"
    DELIVERED = "delivered"
    FAILED = "failed"
    CANCELLED = "cancelled"
    OPENED = "opened"
    CLICKED = "clicked"
    COMPLAINED = "complained"
    UNSUBSCRIBED = "unsubscribed"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Report:
    """One thing a provider says about one message, as parsed from a webhook or a fetch.

    Attributes:
        permanent: for `failed`: a permanent bounce or rejection (5.x.x), which outweighs delivery.
        key: the tracking value of `Key.tracking`, or empty.
        raw: the event as received, redacted and bounded.
    """

    provider: str
    event: Event
    provider_message_id: str = ""
    recipient: str = ""
    occurred_at: datetime | None = None
    reason: str = ""
    code: str = ""
    permanent: bool = False
    key: str = ""
    raw: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a provider says when it is asked for the status of a message.

    Attributes:
        report: None where it cannot say now; `detail` says why.
    """

    report: Report | None
    detail: str = ""
    retry_after_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What a provider says when it is asked whether a message ever reached it.

    Attributes:
        answered: False where it cannot say; then nothing is known.
        report: the message's status, where it was found; None where it certainly is not there.
    """

    answered: bool
    report: Report | None = None
    detail: str = ""


class RequestRefused(Exception):
    """A webhook request is not to be believed; the message says why, for the log."""


class CredentialsWanted(RequestRefused):
    """The request has no basic auth, which some senders (Amazon SNS) give only when asked."""


class WebhookUnusable(RequestRefused):
    """The route has no secret to check requests with, so it believes none; a person has to set it.

    The message names the missing variable.
    """


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """A webhook request as received: nothing decoded, nothing trusted."""

    method: str
    path: str
    query_string: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a route can do; the policies of design and pages ask this, never the provider's name."""

    gives_reports: bool = False
    takes_idempotency_key: bool = False
    idempotency_seconds: float = 0
    can_look_up: bool = False
    can_fetch_status: bool = False
    max_message_bytes: int | None = None


class Provider(Protocol):
    """One configured way out."""

    name: str
    capabilities: Capabilities

    def send(self, message: Email | Sms, key: Key) -> Outcome:
        """Call the provider once. Never raises for what a provider or a network can do."""
        ...

    def probe(self) -> Outcome:
        """Try the connection and the credentials without sending: accepted means usable."""
        ...

    def close(self) -> None:
        """Give back connections; called when a worker stops and when a route was idle."""
        ...


def bounded(text: str, limit: int = 2000) -> str:
    """Return provider text made safe to store: no NUL or lone surrogate, at most `limit` long."""
    clean = text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
