"""One round of the reconciler: what it knows, what it counted, how it takes one row at a time.

Does not decide anything: see `rules.py`; the passes are in `waiting.py`, `lost.py` and `passes.py`.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from sqlalchemy import ColumnElement, select

from dashboard import clock
from dashboard.database import AnySession
from dashboard.dispatch.decisions import Verdict
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.repair.rules import Windows
from dashboard.dispatch.states import Channel
from dashboard.dispatch.transitions import Change, Locked, lock, move
from dashboard.providers.base import Capabilities
from dashboard.settings import Settings

ACTOR = "reconciler"
BATCH = 200
SLICE_SECONDS = 20
DEADLINE_MARGIN = timedelta(seconds=60)


@dataclass(slots=True)
class Tally:
    """What a pass found, repaired and had to skip; `left` if its slice of time was over."""

    found: int = 0
    repaired: int = 0
    skipped: int = 0
    left: bool = False


@dataclass(slots=True)
class Round:
    """One round of the reconciler and what it needs to know besides the rows."""

    settings: Settings
    queue_jobs: Callable[[str], int | None]
    capabilities: Callable[[Channel, str], Capabilities]
    tally: Tally = field(default_factory=Tally)
    until: float = field(default_factory=lambda: clock.monotonic() + SLICE_SECONDS)

    @property
    def windows(self) -> Windows:
        """The windows of the settings."""
        return Windows(
            stall=timedelta(minutes=self.settings.stall_minutes),
            stall_retries=self.settings.stall_retries,
            lost_job=timedelta(seconds=self.settings.lost_job_seconds),
            maximum_wait=timedelta(hours=self.settings.max_wait_hours),
        )

    @property
    def deadline(self) -> timedelta:
        """The longest that a claim, a call and its recording take together."""
        seconds = self.settings.send_deadline_seconds
        return min(timedelta(seconds=seconds * 1.5), timedelta(seconds=seconds) + DEADLINE_MARGIN)


def apply(session: AnySession, locked: Locked, change: Change, this: Round) -> None:
    """Move a row and count it if it moved. Does not commit."""
    decision = move(session, locked, change)
    this.tally.repaired += decision.verdict is Verdict.MOVED


def candidates(
    session: AnySession, this: Round, condition: ColumnElement[bool]
) -> Iterator[Locked]:
    """Yield each candidate under its own lock, in a transaction that ends when the next begins."""
    after: uuid.UUID | None = None
    while True:
        page = select(Dispatch.id).where(condition).order_by(Dispatch.id).limit(BATCH)
        if after is not None:
            page = page.where(Dispatch.id > after)
        ids = list(session.scalars(page))
        session.commit()
        for dispatch_id in ids:
            if clock.monotonic() > this.until:
                this.tally.left = True
                return
            this.tally.found += 1
            held = lock(session, [dispatch_id], condition, skip_locked=True)
            this.tally.skipped += not held
            yield from held
            session.commit()
        if len(ids) < BATCH:
            return
        after = ids[-1]
