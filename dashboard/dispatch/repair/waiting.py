"""The pass over dispatches that wait: lost jobs, stalled ones, expired ones."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import and_, func, or_, select

from dashboard.database import AnySession, database_now
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.repair import rules
from dashboard.dispatch.repair.round import ACTOR, Round, apply, candidates
from dashboard.dispatch.repair.rules import Repair
from dashboard.dispatch.states import WAITING, Failure, Trigger
from dashboard.dispatch.transitions import Change, Locked
from dashboard.queueing.names import SENDING_QUEUES

logger = logging.getLogger("wireroom.reconcile")

GIVE_UP = "No worker completed this. It was published again and others passed it each time."
EXPIRED = "It was not sent in time. Send a new one if it is still wanted."


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What one queue did lately.

    Attributes:
        overtaking: the latest publication that a worker already took from it.
    """

    jobs: int | None
    claimed_at: datetime | None
    overtaking: datetime | None


def repair_waiting(session: AnySession, this: Round) -> None:
    """Publish lost jobs again, stall what nobody takes, expire what waited too long."""
    windows, now = this.windows, database_now(session)
    facts = {queue: _queue_facts(session, this, queue, now) for queue in _queues(session)}
    suspicious = or_(
        Dispatch.expires_at <= now,
        Dispatch.due_at <= now - windows.stall,
        Dispatch.published_at <= now - windows.lost_job,
        Dispatch.due_at <= now - windows.maximum_wait,
    )
    for locked in candidates(session, this, and_(Dispatch.state.in_(WAITING), suspicious)):
        row = locked.dispatch
        queue = facts.get(row.queue) or _queue_facts(session, this, row.queue, now)
        waiting = _waiting(row, queue, now - windows.stall)
        _repair_waiting(session, locked, waiting, rules.about_waiting(waiting, now, windows), this)


def _queues(session: AnySession) -> Sequence[str]:
    """Return the queues that dispatches wait on; they are few, so the index is walked per queue."""
    waiting = select(Dispatch.queue).where(Dispatch.state.in_(WAITING)).distinct().limit(50)
    return sorted({*SENDING_QUEUES, *session.scalars(waiting)})


def _queue_facts(session: AnySession, this: Round, queue: str, now: datetime) -> QueueFacts:
    since = now - max(this.windows.stall * 3, timedelta(hours=1))
    lately = select(func.max(Attempt.claimed_at), func.max(Attempt.published_at)).where(
        Attempt.queue == queue, Attempt.claimed_at > since
    )
    claimed_at, overtaking = session.execute(lately).one()
    return QueueFacts(this.queue_jobs(queue), claimed_at, overtaking)


def _waiting(row: Dispatch, queue: QueueFacts, stall_since: datetime) -> rules.Waiting:
    overtaken = (
        row.published_at is not None
        and queue.overtaking is not None
        and queue.overtaking > row.published_at
    )
    return rules.Waiting(
        state=row.state,
        hold=row.hold,
        next_step=row.next_step,
        due_at=row.due_at,
        expires_at=row.expires_at,
        published_at=row.published_at,
        replaced=row.replaced_by_id is not None,
        stalls=row.stalls,
        stalled_at=row.stalled_at,
        queue_jobs=queue.jobs,
        overtaken=overtaken,
        claimed_lately=queue.claimed_at is not None and queue.claimed_at > stall_since,
    )


def _repair_waiting(
    session: AnySession, locked: Locked, waiting: rules.Waiting, repair: Repair, this: Round
) -> None:
    row = locked.dispatch
    match repair:
        case Repair.PUBLISH_AGAIN:
            row.published_at = None
            this.tally.repaired += 1
            logger.info("job lost, publishing again", extra={"dispatch_id": row.id})
        case Repair.STALL:
            values = {"stalls": row.stalls + waiting.overtaken, "stalled_at": locked.now}
            logger.warning("dispatch stalled", extra={"dispatch_id": row.id, "queue": row.queue})
            apply(session, locked, Change(Trigger.STALL, ACTOR, values=values), this)
        case Repair.GIVE_UP:
            logger.error("no worker completed this", extra={"dispatch_id": row.id})
            values = {"failure": Failure.LOST, "error": GIVE_UP}
            apply(session, locked, Change(Trigger.GIVE_UP, ACTOR, values=values), this)
        case Repair.EXPIRE:
            values = {"failure": Failure.EXPIRED, "error": EXPIRED}
            apply(session, locked, Change(Trigger.EXPIRE, ACTOR, values=values), this)
        case _:
            pass
