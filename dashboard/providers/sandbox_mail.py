"""Reads what the sandbox captured, for its page, its API and the tests.

Whatever was sent may be hostile: a broken message never raises, it only shows less. All text that
comes from it is bounded, and nothing of it names a file.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header
from email.message import Message
from itertools import islice
from pathlib import Path

from dashboard.providers.base import bounded
from dashboard.providers.sandbox import TRACKING_HEADER
from dashboard.providers.sandbox_store import file_of, ids, is_id, received_at

_HEAD_BYTES = 64 * 1024
_TEXT_LIMIT = 5_000_000
_MOST_PARTS = 500
# What the standard library is known to raise on malformed input, instead of noting a defect.
_MALFORMED = (
    MessageError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    RecursionError,
)


@dataclass(frozen=True, slots=True)
class Envelope:
    """What the SMTP conversation said, as opposed to the headers."""

    mail_from: str
    rcpt_to: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CapturedSummary:
    """One captured message as the list shows it; `tracking` names its dispatch, if any."""

    id: str
    received_at: datetime
    envelope: Envelope
    sender: str
    to: str
    subject: str
    message_id: str
    tracking: str
    size: int


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """One attachment or inline file; `content_id` is without brackets."""

    filename: str
    content_type: str
    content_id: str
    inline: bool
    content: bytes
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """One captured message, taken apart; `raw` is what came after DATA."""

    summary: CapturedSummary
    cc: str
    text: str
    html: str
    headers: tuple[tuple[str, str], ...]
    files: tuple[CapturedFile, ...]
    raw: bytes

    @property
    def id(self) -> str:
        """The id under which it was captured."""
        return self.summary.id


def newest(data_dir: Path, *, limit: int = 50, before: str = "") -> list[CapturedSummary]:
    """Return up to `limit` messages, newest first; `before` is the last id of the page above.

    An id that is not one counts as none.
    """
    wanted = ids(data_dir, before=before if is_id(before) else "")
    summaries = (_summary_of_file(data_dir, message_id) for message_id in islice(wanted, limit))
    return [summary for summary in summaries if summary is not None]


def count(data_dir: Path) -> int:
    """Return how many messages are kept."""
    return sum(1 for _ in ids(data_dir))


def load(data_dir: Path, message_id: str) -> CapturedMessage | None:
    """Return one message taken apart, or nothing where there is none (any more)."""
    if not is_id(message_id):
        return None
    try:
        stored = file_of(data_dir, message_id).read_bytes()
    except OSError:
        return None
    envelope, raw = _split(stored)
    message = _parse(raw)
    text, html, files = _contents(message)
    return CapturedMessage(
        summary=_summary(message_id, envelope, message, len(raw)),
        cc=_header(message, "Cc"),
        text=text,
        html=html,
        headers=tuple((bounded(name, 200), _decoded(value)) for name, value in _items(message)),
        files=files,
        raw=raw,
    )


def _summary_of_file(data_dir: Path, message_id: str) -> CapturedSummary | None:
    path = file_of(data_dir, message_id)
    try:
        with path.open("rb") as file:
            stored = file.read(_HEAD_BYTES)
            size = path.stat().st_size
    except OSError:  # pruned meanwhile
        return None
    envelope, head = _split(stored)
    message = _parse(head.partition(b"\r\n\r\n")[0])
    return _summary(message_id, envelope, message, size - (len(stored) - len(head)))


def _summary(message_id: str, envelope: Envelope, message: Message, size: int) -> CapturedSummary:
    return CapturedSummary(
        id=message_id,
        received_at=received_at(message_id),
        envelope=envelope,
        sender=_header(message, "From"),
        to=_header(message, "To"),
        subject=_header(message, "Subject"),
        message_id=_header(message, "Message-ID"),
        tracking=_header(message, TRACKING_HEADER),
        size=size,
    )


def _split(stored: bytes) -> tuple[Envelope, bytes]:
    line, _, raw = stored.partition(b"\n")
    try:
        content = json.loads(line)
        recipients = tuple(str(recipient) for recipient in content["rcpt_to"])
        return Envelope(str(content["mail_from"]), recipients), raw
    except _MALFORMED:
        return Envelope("", ()), raw


def _parse(raw: bytes) -> Message:
    try:
        # compat32: the newer policy parses headers on access and raises on many malformed ones.
        return message_from_bytes(raw)
    except _MALFORMED:
        return Message()


def _items(message: Message) -> list[tuple[str, object]]:
    return [(str(name), value) for name, value in message.items()]


def _header(message: Message, name: str) -> str:
    try:
        value: object = message[name]
    except _MALFORMED:
        return ""
    return "" if value is None else _decoded(value)


def _decoded(value: object) -> str:
    """Return a header's value readable: unfolded, encoded words decoded, octets made text."""
    unfolded = str(value).replace("\r", "").replace("\n", "")
    try:
        pieces = [_text(octets, charset) for octets, charset in decode_header(unfolded)]
    except _MALFORMED:
        pieces = [unfolded]
    return bounded(_scrubbed("".join(pieces)), 10_000)


def _text(octets: bytes | str, charset: str | None) -> str:
    if isinstance(octets, str):
        return octets
    for name in (charset or "utf-8", "utf-8"):
        try:
            return octets.decode(name)
        except (LookupError, ValueError):
            continue
    return octets.decode("latin-1")


def _scrubbed(text: str) -> str:
    """Return text without the surrogates that stand for octets which are not ASCII."""
    octets = text.encode("utf-8", "surrogateescape") if _is_escaped(text) else None
    return text if octets is None else octets.decode("utf-8", "replace")


def _is_escaped(text: str) -> bool:
    surrogates = [character for character in text if "\ud800" <= character <= "\udfff"]
    return bool(surrogates) and all("\udc80" <= character <= "\udcff" for character in surrogates)


def _contents(message: Message) -> tuple[str, str, tuple[CapturedFile, ...]]:
    """Return the first text, the first HTML and all other leaves as files."""
    bodies = {"text/plain": "", "text/html": ""}
    seen: set[str] = set()
    files: list[CapturedFile] = []
    try:
        for part in islice(_leaves(message), _MOST_PARTS):
            content_type = part.get_content_type()
            is_body = not part.get_filename() and part.get_content_disposition() != "attachment"
            if content_type in bodies and content_type not in seen and is_body:
                seen.add(content_type)
                bodies[content_type] = _body_text(part)
            else:
                files.append(_file(part, content_type))
    except _MALFORMED:
        pass  # what was read until then is shown; the source shows the rest
    return bodies["text/plain"], bodies["text/html"], tuple(files)


def _leaves(message: Message) -> Iterator[Message]:
    return (part for part in message.walk() if not part.is_multipart())


def _body_text(part: Message) -> str:
    text = _text(_octets(part), part.get_content_charset())
    return bounded(_scrubbed(text), _TEXT_LIMIT)


def _octets(part: Message) -> bytes:
    try:
        content = part.get_payload(decode=True)
    except _MALFORMED:
        content = None
    return content if isinstance(content, bytes) else b""


def _file(part: Message, content_type: str) -> CapturedFile:
    content = _octets(part)
    return CapturedFile(
        filename=bounded(_decoded(part.get_filename() or ""), 500),
        content_type=bounded(_scrubbed(content_type), 200),
        content_id=_header(part, "Content-ID").strip("<> "),
        inline=part.get_content_disposition() == "inline",
        content=content,
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
    )
