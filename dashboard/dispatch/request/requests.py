"""A validated request for a message, and what is said about one that is not valid.

Nothing here checks anything: `validation.py` makes these, `intake.py` takes them.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from dashboard.dispatch.request.addresses import Address
from dashboard.dispatch.request.segments import Segments
from dashboard.dispatch.states import Channel
from dashboard.queueing.names import Queue

QUEUES: Mapping[str, Queue] = {
    "high": Queue.HIGH,
    "normal": Queue.DEFAULT,
    "bulk": Queue.BULK,
}
"""Priority in a request → the queue it is published on."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with one field (a path such as `to` or `cc[1]`), and how to mend it."""

    field: str
    message: str


class InvalidRequest(Exception):
    """A request cannot be accepted; nothing was stored. Every problem names its field."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(f"{one.field}: {one.message}" for one in problems))
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file that comes with a request; `content_id` (without brackets) marks an inline one."""

    filename: str
    content_type: str
    content: bytes
    inline: bool = False
    content_id: str = ""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that was uploaded before and is named by its id."""

    attachment_id: uuid.UUID
    inline: bool = False
    content_id: str = ""


@dataclass(frozen=True, slots=True)
class Common:
    """What email and SMS have in common.

    Attributes:
        send_at: not before this moment; None is now.
        valid_for: give up when it waited this long after it was due; None is as configured.
    """

    kind: str = "message"
    target_type: str = ""
    target_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    send_at: datetime | None = None
    valid_for: timedelta | None = None
    queue: Queue = Queue.DEFAULT


@dataclass(frozen=True, slots=True)
class EmailRequest:
    """An email, valid; `sender` is empty where the source's own is to be used."""

    to: tuple[Address, ...]
    subject: str
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    sender: str = ""
    text: str = ""
    html: str = ""
    reply_to: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    files: tuple[NewFile | StoredFile, ...] = ()
    common: Common = Common()

    channel = Channel.EMAIL

    @property
    def recipients(self) -> tuple[Address, ...]:
        """Everybody it goes to; each gets a dispatch of their own, the first is the main one."""
        return (*self.to, *self.cc, *self.bcc)


@dataclass(frozen=True, slots=True)
class SmsRequest:
    """A text message, valid; `sender` is empty where the source's own is to be used."""

    to: str
    body: str
    segments: Segments
    sender: str = ""
    media_urls: tuple[str, ...] = ()
    common: Common = Common()

    channel = Channel.SMS


Request = EmailRequest | SmsRequest
