"""Who is alive: workers register, stamp `seen_at` on the database's clock, and say goodbye.

Does not repair anything: see `dashboard.dispatch.repair`.
"""

import os
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import ColumnElement, Select, func, select, update

from dashboard import clock
from dashboard.database import AnySession, database_now
from dashboard.workers.models import Worker

STAMP_SECONDS = 5


class Life(StrEnum):
    """What the age of a worker's last sign says about it."""

    LIVE = "live"
    LATE = "late"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Introduction:
    """What a worker says about itself when it starts."""

    name: str
    queues: Sequence[str]
    version: str = ""
    fingerprint: str = ""
    sentry: bool = False


def register(session: AnySession, introduction: Introduction) -> uuid.UUID:
    """Write down a worker that starts; return its id. Does not commit."""
    worker = Worker(
        name=introduction.name,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=list(introduction.queues),
        version=introduction.version,
        fingerprint=introduction.fingerprint,
        sentry=introduction.sentry,
        clock_ahead_seconds=(clock.now() - database_now(session)).total_seconds(),
    )
    session.add(worker)
    session.flush()
    return worker.id


def stamp(session: AnySession, name: str, *, done: int = 0, failed: int = 0) -> None:
    """Note that a worker is alive now, and what it did since the last stamp. Does not commit."""
    session.execute(
        update(Worker)
        .where(Worker.name == name)
        .values(
            seen_at=func.clock_timestamp(),
            done=Worker.done + done,
            failed=Worker.failed + failed,
            clock_ahead_seconds=func.extract("epoch", clock.now() - func.clock_timestamp()),
        )
        .execution_options(synchronize_session=False)
    )


def stop(session: AnySession, name: str) -> None:
    """Note that a worker ended in order. Does not commit."""
    session.execute(
        update(Worker)
        .where(Worker.name == name)
        .values(stopped_at=func.clock_timestamp(), seen_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )


def life(seen_at: datetime, now: datetime, *, gone_after: timedelta) -> Life:
    """Return what the age of a stamp says; both times are the database's. Pure."""
    age = now - seen_at
    if age > gone_after:
        return Life.GONE
    return Life.LATE if age > timedelta(seconds=3 * STAMP_SECONDS) else Life.LIVE


def is_alive(now: ColumnElement[datetime], gone_after: timedelta) -> ColumnElement[bool]:
    """Return the condition for a worker that is live or late, as `life` has it."""
    return (Worker.seen_at >= now - gone_after) & Worker.stopped_at.is_(None)


def gone_names(session: AnySession, among: Select[str], gone_after: timedelta) -> set[str]:
    """Return those of some names whose worker registered and is not alive any more.

    One that never registered (a plain `rq worker`) stamps nothing: its silence says nothing.
    """
    alive = is_alive(func.clock_timestamp(), gone_after)
    return set(session.scalars(select(Worker.name).where(Worker.name.in_(among), ~alive)))
