"""Finding dispatches: filters, views, keyset pages and the text search, within somebody's scope.

Every list goes through `Finder`, so that lists, counts and live updates cannot drift apart.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    ColumnElement,
    ScalarSelect,
    Select,
    and_,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.orm import joinedload
from sqlalchemy.sql.base import ExecutableOption
from sqlalchemy.sql.selectable import CTE

from dashboard.access.scope import Access, scope_filter
from dashboard.database import AnySession
from dashboard.dispatch.lists.search_text import FOUND_LIMIT, matches, normalise
from dashboard.dispatch.models import Dispatch, SmsContent
from dashboard.dispatch.states import DONE, Channel, State

PAGE_ROWS = 50
ATTENTION_ROWS = 20
COUNT_LIMIT = 1000
WORST_FIRST = (State.STALLED, State.ERRORED, State.UNCONFIRMED)


class View(StrEnum):
    """Which dispatches a list is about."""

    FIRST = "first"
    ATTENTION = "attention"
    ACTIVE = "active"
    DONE = "done"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in the list: its row is the last one seen in the direction of reading."""

    created_at: datetime
    id: uuid.UUID


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list was asked for."""

    view: View = View.FIRST
    state: State | None = None
    channel: Channel | None = None
    text: str = ""

    @property
    def has_groups(self) -> bool:
        """Whether what needs attention stands apart, above the newest."""
        return self.view is View.FIRST and self.state is None and not self.text


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list.

    Attributes:
        attention: what needs a person, above the first page of the default view.
        older, newer: the places where the neighbouring pages begin, where there are any.
        is_capped: the text matched so often that only some matches were looked at.
    """

    attention: Sequence[Dispatch]
    rows: Sequence[Dispatch]
    older: Place | None
    newer: Place | None
    is_capped: bool = False


def attention() -> ColumnElement[bool]:
    """Return the condition that a person has to look at a row."""
    return and_(
        Dispatch.state.in_(WORST_FIRST),
        Dispatch.replaced_by_id.is_(None),
        or_(Dispatch.state != State.UNCONFIRMED, Dispatch.acknowledged_at.is_(None)),
    )


def count_attention(access: Access) -> Select[int]:
    """Return the query for how many rows need somebody, counted up to COUNT_LIMIT."""
    some = (
        select(Dispatch.id)
        .where(attention(), scope_filter(Dispatch.source_id, access))
        .limit(COUNT_LIMIT)
        .subquery()
    )
    return select(func.count()).select_from(some)


class Finder:
    """One list for one person: the same conditions for its rows, its counts and its updates."""

    def __init__(self, access: Access, filters: Filters) -> None:
        self._access = access
        self._filters = filters
        self._term = normalise(filters.text)
        self._matches = matches(self._term, filters.text.strip(), access) if self._term else None

    def page(
        self,
        session: AnySession,
        *,
        after: Place | None = None,
        before: Place | None = None,
        up_to: Place | None = None,
    ) -> Page:
        """Return a page, older than `after` or newer than `before`; two statements at most
        (one more where a text finds nothing).

        Args:
            up_to: leave out what is newer than this, so that an update moves no row.
        """
        first = after is None and before is None
        groups = self._filters.has_groups
        urgent = self._attention(session) if first and groups else ()
        rows, found = self._read(session, after=after, before=before, up_to=up_to)
        more = len(rows) > PAGE_ROWS
        rows = rows[:PAGE_ROWS]
        if before is not None:
            rows = rows[::-1]
        return Page(
            attention=urgent,
            rows=rows,
            older=_place(rows[-1]) if rows and (more or before is not None) else None,
            newer=_place(rows[0]) if rows and (after is not None or (before and more)) else None,
            is_capped=found >= FOUND_LIMIT,
        )

    def count_newer(self, session: AnySession, than: Place, limit: int = 100) -> int:
        """Return how many rows of this list are newer than a place, counted up to a limit."""
        newer = (
            select(Dispatch.id)
            .where(*self._conditions(), _key() > _values(than))
            .limit(limit)
            .subquery()
        )
        return session.scalar(select(func.count()).select_from(newer)) or 0

    def _attention(self, session: AnySession) -> Sequence[Dispatch]:
        worst = [
            select(Dispatch.id)
            .where(Dispatch.state == state, attention(), *self._narrowed())
            .order_by(Dispatch.created_at.desc(), Dispatch.id.desc())
            .limit(ATTENTION_ROWS)
            .subquery()
            .select()
            for state in WORST_FIRST
        ]
        rows = session.scalars(
            select(Dispatch)
            .options(_segments())
            .where(Dispatch.id.in_(union_all(*worst)))
            .order_by(Dispatch.created_at.desc(), Dispatch.id.desc())
        ).all()
        return sorted(rows, key=lambda row: WORST_FIRST.index(row.state))[:ATTENTION_ROWS]

    def _read(
        self,
        session: AnySession,
        *,
        after: Place | None,
        before: Place | None,
        up_to: Place | None,
    ) -> tuple[Sequence[Dispatch], int]:
        """Return the rows of a page and one more, and how many the text matched in all."""
        found = _count(self._matches) if self._matches is not None else literal(0)
        query = select(Dispatch, found).options(_segments()).where(*self._conditions())
        if before is not None:
            query = query.where(_key() > _values(before))
            query = query.order_by(Dispatch.created_at, Dispatch.id)
        else:
            if up_to is not None:
                query = query.where(_key() <= _values(up_to))
            if after is not None:
                query = query.where(_key() < _values(after))
            query = query.order_by(Dispatch.created_at.desc(), Dispatch.id.desc())
        rows = session.execute(query.limit(PAGE_ROWS + 1)).all()
        if rows:
            return [row for row, _ in rows], rows[0][1]
        return [], 0 if self._matches is None else session.scalar(select(found)) or 0

    def _conditions(self) -> list[ColumnElement[bool]]:
        return [self._view(), *self._narrowed()]

    def _view(self) -> ColumnElement[bool]:
        match self._filters.view:
            case View.FIRST if self._filters.has_groups:
                return ~attention()
            case View.ATTENTION:
                return attention()
            case View.ACTIVE:
                return Dispatch.state.not_in(sorted(DONE))
            case View.DONE:
                return Dispatch.state.in_(sorted(DONE))
            case _:
                return true()

    def _narrowed(self) -> list[ColumnElement[bool]]:
        conditions = [scope_filter(Dispatch.source_id, self._access)]
        if self._filters.state is not None:
            conditions.append(Dispatch.state == self._filters.state)
        if self._filters.channel is not None:
            conditions.append(Dispatch.channel == self._filters.channel)
        if self._matches is not None:
            conditions.append(Dispatch.id.in_(select(self._matches.c.id)))
        return conditions


def _segments() -> ExecutableOption:
    """Load how long a text message is along with its row, and not what it says."""
    return joinedload(Dispatch.sms).load_only(SmsContent.segments)


def _count(found: CTE) -> ScalarSelect[int]:
    return select(func.count()).select_from(found).scalar_subquery()


def _key() -> ColumnElement[tuple[datetime, uuid.UUID]]:
    return tuple_(Dispatch.created_at, Dispatch.id)


def _values(place: Place) -> tuple[datetime, uuid.UUID]:
    return (place.created_at, place.id)


def _place(row: Dispatch) -> Place:
    return Place(row.created_at, row.id)
