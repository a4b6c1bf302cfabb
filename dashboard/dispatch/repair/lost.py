"""The pass over dispatches that are being sent: workers that are gone, calls past the deadline."""

import logging
from datetime import timedelta

from sqlalchemy import and_, or_, select

from dashboard.database import AnySession, database_now
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.outcomes import Judge, Result, doubt_change
from dashboard.dispatch.repair import rules
from dashboard.dispatch.repair.round import ACTOR, Round, apply, candidates
from dashboard.dispatch.repair.rules import Repair
from dashboard.dispatch.states import Failure, State, Trigger
from dashboard.dispatch.transitions import Change, Locked
from dashboard.providers.base import Outcome, OutcomeKind
from dashboard.workers.liveness import gone_names

logger = logging.getLogger("wireroom.reconcile")

KILLED = "Killed its worker 3 times before the hand-over. Look at its content, then try again."
LOST = "Its worker was lost while the provider was being called."


def repair_sending(session: AnySession, this: Round) -> None:
    """Close attempts whose worker is gone, or which passed every deadline."""
    gone_after = timedelta(seconds=this.settings.worker_gone_seconds)
    takers = select(Dispatch.worker).where(Dispatch.state == State.SENDING)
    # A worker that never registered is judged by the deadline alone: calling it gone while it
    # lives would send its message twice.
    gone = gone_names(session, takers, gone_after)
    now = database_now(session)
    # A claim is a sign of life as well, where only the stamps fail.
    left_behind = and_(Dispatch.worker.in_(gone), Dispatch.started_at <= now - gone_after)
    overdue = Dispatch.started_at <= now - this.deadline
    condition = and_(Dispatch.state == State.SENDING, or_(left_behind, overdue))
    for locked in candidates(session, this, condition):
        attempt = locked.open_attempt
        if attempt is None or attempt.finished_at is not None:
            continue
        sending = rules.Sending(
            started_at=attempt.claimed_at,
            worker_gone=attempt.worker in gone,
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
    apply(session, locked, _loss_change(session, locked, attempt, repair, this), this)


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
