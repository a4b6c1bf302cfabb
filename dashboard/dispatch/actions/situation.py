"""Situation: everything that the sentence and the buttons of a dispatch may depend on. Pure.

Does not read the database: `situation_of` copies a row that somebody loaded.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Channel, Failure, Hold, NextStep, State
from dashboard.dispatch.story.wording import duration, route_name


def _plain_time(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything a sentence may depend on; `say_time` writes a moment for the reader.

    Attributes:
        ahead: how many are due before it on its queue; None where nobody counted.
        workers: how many workers live on its queue; None where nobody counted.
        hold_reason: why its route is paused.
        warning: what a resend of its kind also does ("The earlier link stops working.").
        can_check: whether its route can be asked what became of it.
    """

    state: State
    now: datetime
    channel: Channel = Channel.EMAIL
    failure: Failure = Failure.NONE
    permanent: bool = False
    hold: Hold = Hold.NONE
    next_step: NextStep = NextStep.SEND
    requested_at: datetime | None = None
    due_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    stalled_at: datetime | None = None
    cancel_noted_by: str = ""
    attempts: int = 0
    tries: int = 0
    worker: str = ""
    queue: str = ""
    provider: str = ""
    error: str = ""
    maybe_sent: bool = False
    proven: bool = False
    acknowledged_by: str = ""
    replaced: bool = False
    cancelled_by: str = ""
    cancel_reason: str = ""
    ahead: int | None = None
    workers: int | None = None
    hold_reason: str = ""
    warning: str = ""
    can_check: bool = False
    say_time: Callable[[datetime], str] = field(default=_plain_time)

    @property
    def who(self) -> str:
        """The provider in the middle of a sentence."""
        return route_name(self.provider)

    def at(self, moment: datetime | None, before: str = " at ") -> str:
        """Return a moment with its preposition, or nothing where there is none."""
        return f"{before}{self.say_time(moment)}" if moment else ""

    def since(self, moment: datetime | None) -> str:
        """Return how long ago a moment was, or an empty text."""
        return duration(max(self.now - moment, timedelta(0))) if moment else ""


COPIED = (
    *("state", "channel", "failure", "permanent", "hold", "next_step", "requested_at", "due_at"),
    *("started_at", "finished_at", "stalled_at", "cancel_noted_by", "attempts", "tries", "worker"),
    *("queue", "provider", "error", "maybe_sent", "proven"),
)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a sentence knows besides the row; see the attributes of `Situation`."""

    now: datetime
    say_time: Callable[[datetime], str] = _plain_time
    ahead: int | None = None
    workers: int | None = None
    hold_reason: str = ""
    cancelled_by: str = ""
    cancel_reason: str = ""
    warning: str = ""
    can_check: bool = False


def situation_of(row: Dispatch, around: Surroundings) -> Situation:
    """Return the situation of a loaded row."""
    return Situation(
        **{name: getattr(row, name) for name in COPIED},
        acknowledged_by=row.acknowledged_by if row.acknowledged_at else "",
        replaced=row.replaced_by_id is not None,
        **{name: getattr(around, name) for name in around.__slots__},
    )
