"""cancel(): a person's "Cancel": it will never be sent, or not if it is not out yet."""

import uuid

from dashboard.access.activity import record
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import AnySession
from dashboard.dispatch.actions.press import Press, expect_moved, take
from dashboard.dispatch.decisions import Verdict
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Trigger
from dashboard.dispatch.transitions import Change, move

REASON_LIMIT = 500


def cancel(
    session: AnySession,
    dispatch_id: uuid.UUID,
    access: Access,
    *,
    version: int | None = None,
    reason: str = "",
) -> Dispatch:
    """Cancel a dispatch; while a worker has it, note the wish instead. Commits.

    A noted cancel stops the hand-over if it has not happened yet, and any later try.

    Raises:
        ActionRefused: when its state does not allow it.
        OutOfScope, NotAllowed: see `actions.take`.
    """
    locked = take(session, Press(dispatch_id, access, version), Permission.DISPATCH_CANCEL)
    row = locked.dispatch
    reason = reason.strip()[:REASON_LIMIT]
    change = Change(Trigger.CANCEL, access.actor, note=reason)
    decision = move(session, locked, change)
    expect_moved(decision)
    noted = decision.verdict is Verdict.NOTED
    if noted:
        row.cancel_noted_by = access.actor
        row.cancel_noted_reason = reason
        row.version += 1
        row.updated_at = locked.now
    record(
        session,
        access,
        "dispatch.cancel",
        "dispatch",
        str(row.id),
        row.source_id,
        reason=reason,
        outcome="noted" if noted else "done",
    )
    session.commit()
    return row
