"""record(): who did what to what, and why, in the transaction of the action itself.

Holds no recipient, no content and no secret. Append-only: the database refuses changes.
"""

import uuid
from typing import Any

from flask import has_request_context, request

from dashboard.access.models import Activity
from dashboard.access.scope import Access
from dashboard.database import AnySession, new_id


def record(  # noqa: PLR0913  an activity has that many facts
    session: AnySession,
    access: Access,
    action: str,
    subject_type: str = "",
    subject_id: str = "",
    source_id: uuid.UUID | None = None,
    *,
    reason: str = "",
    outcome: str = "done",
    count: int = 1,
    details: dict[str, Any] | None = None,
) -> None:
    """Add a line of activity. Does not commit."""
    session.add(
        Activity(
            id=new_id(),
            actor=access.actor,
            via=access.via,
            action=action,
            subject_type=subject_type,
            subject_id=subject_id,
            source_id=source_id,
            reason=reason,
            outcome=outcome,
            count=count,
            details=details or {},
            address=(request.remote_addr or "") if has_request_context() else "",
        )
    )
