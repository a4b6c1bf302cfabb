"""reschedule(): when a dispatch that still waits goes out: earlier, later or now."""

import uuid
from datetime import UTC, datetime

from dashboard.access.activity import record
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import AnySession
from dashboard.dispatch.actions.press import ActionRefused, Press, take
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.publishing import publish_or_note
from dashboard.dispatch.states import LABELS, WAITING, Hold, NextStep
from dashboard.dispatch.transitions import Locked
from dashboard.settings import current


def reschedule(
    session: AnySession,
    dispatch_id: uuid.UUID,
    access: Access,
    *,
    send_at: datetime,
    version: int | None = None,
) -> Dispatch:
    """Let a waiting dispatch go out at another time. Commits, then publishes what is due now.

    Its state stays. What has not been tried yet keeps its validity, counted from the new time.

    Raises:
        ActionRefused: when it does not wait any more, or would expire before that time.
        OutOfScope, NotAllowed: see `actions.take`.
    """
    locked = _take(session, Press(dispatch_id, access, version), send_at)
    row, is_due = locked.dispatch, send_at <= locked.now
    if row.expires_at is not None and _keeps_validity(row):
        row.expires_at += max(send_at, locked.now) - row.due_at
    row.due_at = max(send_at.astimezone(UTC), locked.now)
    publishes = is_due and row.hold is Hold.NONE
    row.published_at = locked.now if publishes else None
    row.version += 1
    row.updated_at = locked.now
    record(
        session,
        access,
        "dispatch.reschedule",
        "dispatch",
        str(row.id),
        row.source_id,
        details={"due_at": row.due_at.isoformat()},
    )
    session.commit()
    if publishes:
        publish_or_note(session, [(row.queue, [row.id])], current())
    return row


def rehearse_reschedule(session: AnySession, press: Press, send_at: datetime) -> str:
    """Return in a sentence what a new time would do. Changes nothing: rolls back.

    Raises:
        ActionRefused, OutOfScope, NotAllowed: as the press itself would.
    """
    try:
        locked = _take(session, press, send_at)
        state = LABELS[locked.dispatch.state].lower()
        if send_at <= locked.now:
            return f"It is {state} and would be due now."
        return f"It is {state} and would be due at {send_at.isoformat()}."
    finally:
        session.rollback()


def _take(session: AnySession, press: Press, send_at: datetime) -> Locked:
    """Lock it for whoever may read it and ask for messages: a time is part of the request."""
    locked = take(session, press, Permission.DISPATCH_CREATE)
    row = locked.dispatch
    press.access.require(Permission.DISPATCH_READ, row.source_id)
    if row.state not in WAITING:
        raise ActionRefused(
            f"It is {LABELS[row.state].lower()}, so it has no time to go out any more."
        )
    if row.next_step is NextStep.LOOK_UP:
        raise ActionRefused("Its provider is being asked whether it arrived; wait for the answer.")
    expires_at = row.expires_at
    if expires_at is not None and send_at >= expires_at and not _keeps_validity(row):
        raise ActionRefused(
            f"It expires at {expires_at.isoformat()}, before that time. Send a new one instead."
        )
    return locked


def _keeps_validity(row: Dispatch) -> bool:
    """Return whether its validity still counts from when it is due: it was never tried."""
    return not row.attempts
