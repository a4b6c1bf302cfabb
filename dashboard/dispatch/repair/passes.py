"""The reconciler's passes, one after another, within twenty seconds in all.

Each dispatch has a short transaction of its own; what somebody else holds is skipped and seen next
time. Done, cancelled, replaced and held rows are never sent.
"""

from datetime import datetime, timedelta

from sqlalchemy import and_, or_

from dashboard.database import AnySession, database_now
from dashboard.dispatch.actions.clearing import clear_for_retry
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.repair.lost import repair_sending
from dashboard.dispatch.repair.round import ACTOR, Round, Tally, apply, candidates
from dashboard.dispatch.repair.waiting import repair_waiting
from dashboard.dispatch.states import Channel, Failure, State, Trigger
from dashboard.dispatch.transitions import Change
from dashboard.queueing.names import SENDING_QUEUES

PUBLISH_RETRIED_FOR = timedelta(hours=24)


def reconcile(session: AnySession, this: Round) -> Tally:
    """Run every pass once, within twenty seconds in all; return what came of it. Commits."""
    repair_waiting(session, this)
    repair_sending(session, this)
    retry_unpublished(session, this)
    time_out_awaiting(session, this)
    return this.tally


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
    for locked in candidates(session, this, condition):
        row = locked.dispatch
        kept = {"due_at": row.due_at, "expires_at": row.expires_at}  # nobody pressed anything
        values = {**clear_for_retry(locked), **kept}
        apply(session, locked, Change(Trigger.RETRY, ACTOR, values=values), this)


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
    for locked in candidates(session, this, and_(Dispatch.state == State.AWAITING, overdue)):
        row = locked.dispatch
        if _is_polled(row, locked.now, windows[row.channel], this):
            continue
        hours = windows[row.channel].total_seconds() / 3600
        note = f"Accepted, but no report came in {hours:g} h."
        values = {"error": note}
        apply(session, locked, Change(Trigger.TIME_OUT, ACTOR, note=note, values=values), this)


def _is_polled(row: Dispatch, now: datetime, window: timedelta, this: Round) -> bool:
    """Return whether the poller times it out, after a last fetch, within twice the window."""
    asks = this.capabilities(row.channel, row.provider).can_fetch_status
    return asks and row.finished_at is not None and now - row.finished_at < 2 * window
