"""The reconciler's passes: find candidates, then decide and repair each under its own lock.

Each dispatch has a short transaction of its own; what somebody else holds is skipped and seen next
time. Done, cancelled, replaced and held rows are never sent.
"""

import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, and_, func, or_, select

from dashboard import clock
from dashboard.database import AnySession, database_now
from dashboard.dispatch.decisions import Verdict
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.outcomes import Judge, Result, doubt_change
from dashboard.dispatch.repair import rules
from dashboard.dispatch.repair.rules import Repair, Windows
from dashboard.dispatch.states import WAITING, Channel, Failure, State, Trigger
from dashboard.dispatch.transitions import Change, Locked, clear_for_retry, lock, move
from dashboard.providers.base import Capabilities, Outcome, OutcomeKind
from dashboard.queueing.names import SENDING_QUEUES
from dashboard.settings import Settings
from dashboard.workers.liveness import live_names

logger = logging.getLogger("wireroom.reconcile")

ACTOR = "reconciler"
BATCH = 200
SLICE_SECONDS = 20
DEADLINE_MARGIN = timedelta(seconds=60)
PUBLISH_RETRIED_FOR = timedelta(hours=24)
GIVE_UP = "No worker completed this. It was published again and others passed it each time."
EXPIRED = "It was not sent in time. Send a new one if it is still wanted."
KILLED = "Killed its worker 3 times before the hand-over. Look at its content, then try again."
LOST = "Its worker was lost while the provider was being called."


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


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What one queue did lately.

    Attributes:
        overtaking: the latest publication that a worker already took from it.
    """

    jobs: int | None
    claimed_at: datetime | None
    overtaking: datetime | None


def reconcile(session: AnySession, this: Round) -> Tally:
    """Run every pass once, within twenty seconds in all; return what came of it. Commits."""
    repair_waiting(session, this)
    repair_sending(session, this)
    retry_unpublished(session, this)
    time_out_awaiting(session, this)
    return this.tally


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
    for locked in _candidates(session, this, and_(Dispatch.state.in_(WAITING), suspicious)):
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
            _move(session, locked, Change(Trigger.STALL, ACTOR, values=values), this)
        case Repair.GIVE_UP:
            logger.error("no worker completed this", extra={"dispatch_id": row.id})
            values = {"failure": Failure.LOST, "error": GIVE_UP}
            _move(session, locked, Change(Trigger.GIVE_UP, ACTOR, values=values), this)
        case Repair.EXPIRE:
            values = {"failure": Failure.EXPIRED, "error": EXPIRED}
            _move(session, locked, Change(Trigger.EXPIRE, ACTOR, values=values), this)
        case _:
            pass


def repair_sending(session: AnySession, this: Round) -> None:
    """Close attempts whose worker is gone, or which passed every deadline."""
    alive = live_names(session, timedelta(seconds=this.settings.worker_gone_seconds))
    now = database_now(session)
    # A worker that was just claimed for by a process without registration has its grace as well.
    grace = now - timedelta(seconds=this.settings.worker_gone_seconds)
    gone = (
        and_(Dispatch.worker.not_in(alive), Dispatch.started_at <= grace)
        if alive
        else (Dispatch.started_at <= grace)
    )
    overdue = Dispatch.started_at <= now - this.deadline
    condition = and_(Dispatch.state == State.SENDING, or_(gone, overdue))
    for locked in _candidates(session, this, condition):
        attempt = locked.open_attempt
        if attempt is None or attempt.finished_at is not None:
            continue
        sending = rules.Sending(
            started_at=attempt.claimed_at,
            worker_alive=attempt.worker in alive,
            handed_over=attempt.handed_over_at is not None,
            losses=locked.dispatch.losses,
        )
        repair = rules.about_sending(sending, locked.now, this.deadline)
        if repair is not Repair.NOTHING:
            _close_lost(session, locked, attempt, repair, this)


def _close_lost(
    session: AnySession, locked: Locked, attempt: Attempt, repair: Repair, this: Round
) -> None:
    attempt.lost = True
    attempt.finished_at = locked.now
    losses = locked.dispatch.losses + 1
    logger.warning(
        "worker lost",
        extra={"dispatch_id": locked.dispatch.id, "worker": attempt.worker, "losses": losses},
    )
    _move(session, locked, _loss_change(session, locked, attempt, repair, this), this)


def _loss_change(
    session: AnySession, locked: Locked, attempt: Attempt, repair: Repair, this: Round
) -> Change:
    losses = locked.dispatch.losses + 1
    about = attempt.number
    if repair is Repair.FAIL_LOST:
        values = {"losses": losses, "failure": Failure.LOST, "error": KILLED}
        return Change(Trigger.FAIL, ACTOR, about=about, values=values, note=KILLED)
    if repair is Repair.CLOSE_LOST:
        attempt.detail = "Its worker was lost before the hand-over; nothing went out."
        note = f"Worker {attempt.worker} was lost before the hand-over."
        return Change(Trigger.STALL, ACTOR, about=about, values={"losses": losses}, note=note)
    attempt.detail = LOST
    attempt.outcome = OutcomeKind.UNKNOWN
    outcome = Outcome(OutcomeKind.UNKNOWN, detail=LOST)
    result = Result(locked.dispatch.id, attempt.id, about, attempt.route, outcome)
    judge = Judge(this.settings, ACTOR, this.capabilities(locked.dispatch.channel, attempt.route))
    change = doubt_change(session, locked, result, judge)
    return Change(
        change.trigger,
        ACTOR,
        about=about,
        evidence=change.evidence,
        step=change.step,
        tries_left=change.tries_left,
        note=change.note,
        values={**change.values, "losses": losses},
    )


def retry_unpublished(session: AnySession, this: Round) -> None:
    """Queue again what Redis did not take, once Redis answers."""
    if this.queue_jobs(SENDING_QUEUES[0]) is None:
        return
    now = database_now(session)
    condition = and_(
        Dispatch.state == State.ERRORED,
        Dispatch.failure == Failure.PUBLISH,
        Dispatch.created_at > now - PUBLISH_RETRIED_FOR,
        Dispatch.replaced_by_id.is_(None),
    )
    for locked in _candidates(session, this, condition):
        due_at = locked.dispatch.due_at
        values = {**clear_for_retry(locked), "due_at": due_at}
        _move(session, locked, Change(Trigger.RETRY, ACTOR, values=values), this)


def time_out_awaiting(session: AnySession, this: Round) -> None:
    """Say "outcome unknown" of what awaits a report for longer than its channel's window."""
    now = database_now(session)
    windows = {
        Channel.EMAIL: timedelta(hours=this.settings.email_timeout_hours),
        Channel.SMS: timedelta(hours=this.settings.sms_timeout_hours),
    }
    overdue = or_(
        *(
            and_(Dispatch.channel == channel, Dispatch.finished_at <= now - window)
            for channel, window in windows.items()
        )
    )
    for locked in _candidates(session, this, and_(Dispatch.state == State.AWAITING, overdue)):
        row = locked.dispatch
        if _is_polled(row, locked.now, windows[row.channel], this):
            continue
        hours = windows[row.channel].total_seconds() / 3600
        note = f"Accepted, but no report came in {hours:g} h."
        values = {"error": note}
        _move(session, locked, Change(Trigger.TIME_OUT, ACTOR, note=note, values=values), this)


def _is_polled(row: Dispatch, now: datetime, window: timedelta, this: Round) -> bool:
    """Return whether the poller times it out, after a last fetch; it has twice the window for it."""
    asks = this.capabilities(row.channel, row.provider).can_fetch_status
    return asks and row.finished_at is not None and now - row.finished_at < 2 * window


def _move(session: AnySession, locked: Locked, change: Change, this: Round) -> None:
    decision = move(session, locked, change)
    this.tally.repaired += decision.verdict is Verdict.MOVED


def _candidates(
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
