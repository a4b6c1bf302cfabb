"""Taking outlived rows in small batches, each a short transaction, until the time is over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import Select

from dashboard import clock
from dashboard.database import AnySession, database_now
from dashboard.dispatch.repair.round import SLICE_SECONDS, Tally
from dashboard.settings import Settings

BATCH = 500


@dataclass(slots=True)
class Pruning:
    """One run of a cleanup: its settings and moment, what it counted, and when its time is over."""

    settings: Settings
    now: datetime
    tally: Tally = field(default_factory=Tally)
    until: float = field(default_factory=lambda: clock.monotonic() + SLICE_SECONDS)

    @property
    def is_over(self) -> bool:
        """Whether the time of this run is over; then the tally says that something is left."""
        self.tally.left = self.tally.left or clock.monotonic() > self.until
        return self.tally.left


def begin(session: AnySession, settings: Settings, tally: Tally) -> Pruning:
    """Return a run that starts now, on the database's clock."""
    return Pruning(settings, database_now(session), tally)


def in_batches(
    session: AnySession, run: Pruning, ids: Select[Any], delete: Callable[[list[Any]], None]
) -> int:
    """Delete batch after batch of what a query finds; return how many. Commits each.

    Args:
        session: what the query and the deletion run in.
        run: what is counted and when to stop.
        ids: ids of what has outlived its time. Rows that somebody else holds must be skipped by
            it, and what was deleted must be found no more.
        delete: deletes these, in the same transaction.
    """
    count = 0
    while not run.is_over:
        found = list(session.scalars(ids.limit(BATCH)))
        if found:
            delete(found)
        session.commit()
        count += len(found)
        if len(found) < BATCH:
            break
    run.tally.found += count
    run.tally.repaired += count
    return count
