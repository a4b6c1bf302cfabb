"""Which captured messages a person or a token may see: those of the dispatches in their scope.

The sandbox itself knows no sources; each message names its dispatch in a header. One that names
none is for those alone who may read the content of every source.
"""

import uuid
from collections.abc import Sequence

from sqlalchemy import select

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, scope_filter
from dashboard.database import AnySession
from dashboard.dispatch.models import Dispatch
from dashboard.providers import sandbox_mail
from dashboard.providers.sandbox_mail import CapturedSummary
from dashboard.settings import current

# Where other sources send much, this many messages are looked through for one page.
_SLICE = 200
_MOST_SLICES = 10


def newest_in_scope(
    session: AnySession, access: Access, *, limit: int, before: str = ""
) -> list[CapturedSummary]:
    """Return up to `limit` captured messages that they may see, newest first, behind `before`."""
    if access.allows_everywhere(Permission.CONTENT_READ):
        return sandbox_mail.newest(current().data_dir, limit=limit, before=before)
    found: list[CapturedSummary] = []
    for _ in range(_MOST_SLICES):
        looked_at = sandbox_mail.newest(current().data_dir, limit=_SLICE, before=before)
        found += in_scope(session, access, looked_at)
        if len(looked_at) < _SLICE or len(found) >= limit:
            break
        before = looked_at[-1].id
    return found[:limit]


def in_scope(
    session: AnySession, access: Access, messages: Sequence[CapturedSummary]
) -> list[CapturedSummary]:
    """Return those of some captured messages that they may see. One statement at most."""
    if access.allows_everywhere(Permission.CONTENT_READ):
        return list(messages)
    named = {one.id: _dispatch_id(one) for one in messages}
    wanted = {each for each in named.values() if each is not None}
    if not wanted:
        return []
    seen = set(
        session.scalars(
            select(Dispatch.id).where(
                Dispatch.id.in_(wanted),
                scope_filter(Dispatch.source_id, access, Permission.CONTENT_READ),
            )
        )
    )
    return [one for one in messages if named[one.id] in seen]


def _dispatch_id(message: CapturedSummary) -> uuid.UUID | None:
    try:
        return uuid.UUID(message.tracking.partition(".")[0])
    except ValueError:
        return None
