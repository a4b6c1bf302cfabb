"""acknowledge(): takes a dispatch with an unknown outcome off "needs attention", with a reason."""

import uuid

from dashboard.access.activity import record
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import AnySession
from dashboard.dispatch.actions.press import ActionRefused, Press, take
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import LABELS, State


def acknowledge(
    session: AnySession,
    dispatch_id: uuid.UUID,
    access: Access,
    *,
    version: int | None = None,
    reason: str = "",
) -> Dispatch:
    """Note that somebody looked at an unknown outcome and leaves it so. Commits.

    Raises:
        ActionRefused: when its outcome is known.
        OutOfScope, NotAllowed: see `actions.take`.
    """
    locked = take(session, Press(dispatch_id, access, version), Permission.DISPATCH_CANCEL)
    row = locked.dispatch
    if row.state is not State.UNCONFIRMED:
        label = LABELS[row.state].lower()
        raise ActionRefused(f"It is {label}, so there is nothing to acknowledge.")
    row.acknowledged_at = locked.now
    row.acknowledged_by = access.actor
    row.version += 1
    record(
        session,
        access,
        "dispatch.acknowledge",
        "dispatch",
        str(row.id),
        row.source_id,
        reason=reason.strip()[:500],
    )
    session.commit()
    return row
