"""What a refusal, a loss or an impossibility in an SMTP conversation means: one of five outcomes.

Pure, and by phase and reply code, never by exception class. The one place for these rules; the
table they follow is walked row by row in the tests.
"""

import re
import socket
import ssl

from dashboard.providers.base import Outcome, OutcomeKind
from dashboard.providers.smtp_wire import Impossible, Lost, Phase, Refused, Reply

GREYLIST_SECONDS = 300.0
_LONGEST_WAIT_SECONDS = 4 * 3600.0
_ENHANCED = re.compile(r"^([245]\.\d{1,3}\.\d{1,3})\b")
_GREYLIST = re.compile(r"gr[ea]y-?\s?list", re.IGNORECASE)
_WAIT = re.compile(r"\b(\d{1,5})\s*(s|sec|seconds?|m|min|minutes?)\b", re.IGNORECASE)
_ABOUT_US = re.compile(
    r"relay|sender|client|\bhost\b|\bIP\b|authenticat|\bDMARC\b|\bSPF\b|\bDKIM\b", re.IGNORECASE
)
_ABOUT_RECIPIENT = re.compile(r"recipient|mailbox|user|group|list\b", re.IGNORECASE)
_NO_SUCH_USER = re.compile(
    r"(user|address|mailbox|recipient|account)\b.{0,80}\b(unknown|not found|not exist|unavailable)"
    r"|(unknown|no such|invalid) (user|address|mailbox|recipient|account|person)",
    re.IGNORECASE,
)
_GONE_FOR_GOOD = frozenset({"5.1.1", "5.1.3", "5.1.6", "5.1.10"})
_BAD_SENDER = frozenset({"5.1.7", "5.1.8"})
_BEFORE_SIGN_IN_IS_DONE = frozenset({Phase.GREETING, Phase.EHLO, Phase.STARTTLS, Phase.AUTH})


def enhanced_code(reply: Reply) -> str:
    """Return the reply's enhanced status code (RFC 3463), such as `5.1.1`, or nothing."""
    match = _ENHANCED.match(reply.text.strip())
    return match[1] if match else ""


def reply_code(reply: Reply) -> str:
    """Return what names the cause: `550 5.1.1`, or `550` alone, or nothing."""
    return f"{reply.code} {enhanced_code(reply)}".strip() if reply.code > 0 else ""


def words(reply: Reply) -> str:
    """Return the reply as the server wrote it."""
    return f"{reply.code} {reply.text}".strip() if reply.code > 0 else reply.text.strip()


def of_refusal(refused: Refused) -> Outcome:
    """Say what a negative reply means, depending on how far the conversation had come."""
    phase, reply = refused.phase, refused.reply
    if not 400 <= reply.code < 600:
        return _of_nonsense(phase, reply)
    if reply.code == 421:  # the server is going away: true for every message
        return _outcome(OutcomeKind.TRANSIENT, reply)
    if reply.code < 500:
        return _of_postponement(phase, reply)
    if phase in _BEFORE_SIGN_IN_IS_DONE or reply.code in (530, 534, 535, 538):
        return _outcome(OutcomeKind.CONFIG, reply)
    if phase is Phase.MAIL:
        return _of_refused_sender(reply)
    if _is_full_mailbox(phase, reply):
        return _outcome(OutcomeKind.TRANSIENT, reply, about_recipient=True)
    if phase is Phase.RCPT:
        return _of_refused_recipient(reply)
    return _of_refused_content(reply)


def _outcome(kind: OutcomeKind, reply: Reply, *, about_recipient: bool = False) -> Outcome:
    return Outcome(
        kind, detail=words(reply), code=reply_code(reply), about_recipient=about_recipient
    )


def _of_nonsense(phase: Phase, reply: Reply) -> Outcome:
    """A reply without a number, or with one that has no place here."""
    said = words(reply)[:200]
    detail = f"The server's answer is not SMTP: {said!r}"
    if phase is Phase.DOT_SENT:
        return Outcome(OutcomeKind.UNKNOWN, detail=detail)
    kind = OutcomeKind.CONFIG if phase is Phase.GREETING else OutcomeKind.TRANSIENT
    return Outcome(kind, detail=detail)


def _of_postponement(phase: Phase, reply: Reply) -> Outcome:
    is_greylisted = phase is Phase.RCPT and reply.code in (450, 451)
    is_greylisted = is_greylisted or bool(_GREYLIST.search(reply.text))
    return Outcome(
        OutcomeKind.TRANSIENT,
        detail=words(reply),
        code=reply_code(reply),
        about_recipient=phase is Phase.RCPT or is_greylisted,
        retry_after_seconds=_wait_seconds(reply.text) if is_greylisted else None,
    )


def _wait_seconds(text: str) -> float:
    """Return how long a greylisting server wants us to wait, never under five minutes."""
    match = _WAIT.search(text)
    if match is None:
        return GREYLIST_SECONDS
    seconds = float(match[1]) * (60 if match[2].lower().startswith("m") else 1)
    return min(max(seconds, GREYLIST_SECONDS), _LONGEST_WAIT_SECONDS)


def _of_refused_sender(reply: Reply) -> Outcome:
    if enhanced_code(reply) in _BAD_SENDER:  # this message's sender; others may do
        return _outcome(OutcomeKind.PERMANENT, reply)
    is_about_us = reply.code in (550, 551, 553, 554)
    return _outcome(OutcomeKind.CONFIG if is_about_us else OutcomeKind.PERMANENT, reply)


def _is_full_mailbox(phase: Phase, reply: Reply) -> bool:
    status = enhanced_code(reply)
    return status == "5.2.2" or (phase is Phase.RCPT and reply.code == 552 and not status)


def _of_refused_recipient(reply: Reply) -> Outcome:
    """Tell a recipient that does not exist from a server that does not want us."""
    status = enhanced_code(reply)
    is_policy = status.startswith("5.7.")
    if status in _GONE_FOR_GOOD or (not status and _NO_SUCH_USER.search(reply.text)):
        return Outcome(
            OutcomeKind.PERMANENT,
            detail=words(reply),
            code=reply_code(reply),
            about_recipient=True,
            suppress=True,
        )
    if (is_policy or not status) and _ABOUT_US.search(reply.text):
        return _outcome(OutcomeKind.CONFIG, reply)
    if is_policy and not _ABOUT_RECIPIENT.search(reply.text):
        return _outcome(OutcomeKind.CONFIG, reply)
    return _outcome(OutcomeKind.PERMANENT, reply, about_recipient=True)


def _of_refused_content(reply: Reply) -> Outcome:
    # A failed DMARC, SPF or content check concerns this message; where it concerns all of them,
    # the failures in a row pause the route, because they are not about the recipient.
    status = enhanced_code(reply)
    gone = status in _GONE_FOR_GOOD
    return Outcome(
        OutcomeKind.PERMANENT,
        detail=words(reply),
        code=reply_code(reply),
        about_recipient=status.startswith(("5.1.", "5.2.")) and status not in _BAD_SENDER,
        suppress=gone,
    )


def of_loss(lost: Lost) -> Outcome:
    """Say what a lost connection means: doubt only after the final dot."""
    reason = _reason(lost.cause)
    if lost.phase is Phase.DOT_SENT:
        return Outcome(
            OutcomeKind.UNKNOWN,
            detail=f"The connection was lost after the whole message had been sent: {reason}",
        )
    if _is_tls_mistake(lost.cause):
        return Outcome(
            OutcomeKind.CONFIG,
            detail=f"No encrypted connection to the mail server: {reason}. Check host and port of "
            "SMTP_URL; a certificate of your own needs ca=.",
        )
    place = "no connection" if lost.phase is Phase.CONNECT else f"lost at {lost.phase}"
    return Outcome(
        OutcomeKind.TRANSIENT,
        detail=f"The mail server could not be used ({place}): {reason}",
    )


def is_unknown_name(lost: Lost) -> bool:
    """Whether the server's host name does not exist, as far as DNS can say."""
    cause = lost.cause
    return isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME


def _reason(cause: Exception) -> str:
    """Return the operating system's words, which smtplib hides behind its own."""
    inner = cause.__context__
    error = inner if isinstance(inner, OSError) else cause
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _is_tls_mistake(cause: Exception) -> bool:
    # An end of file is an SSLError too, but it is a loss like every other.
    ends = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)
    return isinstance(cause, ssl.SSLError) and not isinstance(cause, ends)


def of_impossibility(impossible: Impossible) -> Outcome:
    """Say what it means that the server lacks something: about the route, or about this message."""
    is_about_route = impossible.phase in _BEFORE_SIGN_IN_IS_DONE or impossible.phase in (
        Phase.CONNECT,
        Phase.IDLE,
    )
    kind = OutcomeKind.CONFIG if is_about_route else OutcomeKind.PERMANENT
    return Outcome(kind, detail=str(impossible))
