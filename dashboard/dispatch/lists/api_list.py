"""The dispatches of a source as the API lists them: exact filters, newest first, keyset pages.

Reads only, one statement. The pages for people, with their text search, are in `search.py`: a term
that may be an address does not belong into a URL, so this list has no search.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import ColumnElement, select, tuple_

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, scope_filter
from dashboard.database import AnySession
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import DONE, Channel, State

Place = tuple[datetime, uuid.UUID]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a list is asked for; what is empty does not narrow it.

    Attributes:
        done: only those that are done (True) or are not (False).
        from_, until: when they were requested, the end not included.
        after: the last row of the page before.
        limit: rows of a page.
    """

    state: State | None = None
    done: bool | None = None
    channel: Channel | None = None
    kind: str = ""
    provider: str = ""
    target_type: str = ""
    target_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    from_: datetime | None = None
    until: datetime | None = None
    after: Place | None = None
    limit: int = 50


def list_dispatches(
    session: AnySession, wanted: Wanted, access: Access
) -> tuple[Sequence[Dispatch], Place | None]:
    """Return a page, newest first, and the place after which the next one begins, if there is one.

    `created_at` and the id (which grows with time) are the key: rows that come meanwhile are newer.
    """
    query = (
        select(Dispatch)
        .where(scope_filter(Dispatch.source_id, access, Permission.DISPATCH_LIST))
        .where(*_conditions(wanted))
        .order_by(Dispatch.created_at.desc(), Dispatch.id.desc())
        .limit(wanted.limit + 1)
    )
    rows = session.scalars(query).all()
    page = rows[: wanted.limit]
    last = page[-1] if len(rows) > wanted.limit else None
    return page, (last.created_at, last.id) if last else None


def _conditions(wanted: Wanted) -> list[ColumnElement[bool]]:
    exact = (
        (Dispatch.state, wanted.state),
        (Dispatch.channel, wanted.channel),
        (Dispatch.kind, wanted.kind),
        (Dispatch.provider, wanted.provider),
        (Dispatch.target_type, wanted.target_type),
        (Dispatch.target_id, wanted.target_id),
    )
    found: list[ColumnElement[bool]] = [column == value for column, value in exact if value]
    if wanted.done is not None:
        found.append(Dispatch.state.in_(DONE) if wanted.done else Dispatch.state.not_in(DONE))
    if wanted.labels:
        found.append(Dispatch.labels.contains(dict(wanted.labels)))
    return [*found, *_period(wanted)]


def _period(wanted: Wanted) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = []
    if wanted.from_ is not None:
        found.append(Dispatch.created_at >= wanted.from_)
    if wanted.until is not None:
        found.append(Dispatch.created_at < wanted.until)
    if wanted.after is not None:
        found.append(tuple_(Dispatch.created_at, Dispatch.id) < wanted.after)
    return found
