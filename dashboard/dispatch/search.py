"""Finding dispatches: filters, views, keyset pages and the text search, within somebody's scope.

Every list goes through `Finder`, so that lists, counts and live updates cannot drift apart.
"""

import re
import unicodedata
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    false,
    func,
    or_,
    select,
    true,
    tuple_,
    union_all,
)
from sqlalchemy.sql.selectable import CTE

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, scope_filter
from dashboard.database import AnySession
from dashboard.dispatch.addresses import ascii_address
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.states import DONE, Channel, State

PAGE_ROWS = 50
ATTENTION_ROWS = 20
# How many matches of a text are looked at; more would let one search hold the database.
FOUND_LIMIT = 1000
COUNT_LIMIT = 1000
SHORTEST_TEXT = 3
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
        self._matches = _matches(self._term, filters.text.strip(), access) if self._term else None

    def page(
        self,
        session: AnySession,
        *,
        after: Place | None = None,
        before: Place | None = None,
        up_to: Place | None = None,
    ) -> Page:
        """Return a page, older than `after` or newer than `before`; three statements at most.

        Args:
            up_to: leave out what is newer than this, so that an update moves no row.
        """
        first = after is None and before is None
        groups = self._filters.has_groups
        urgent = self._attention(session) if first and groups else ()
        rows = self._read(session, after=after, before=before, up_to=up_to)
        more = len(rows) > PAGE_ROWS
        rows = rows[:PAGE_ROWS]
        if before is not None:
            rows = rows[::-1]
        return Page(
            attention=urgent,
            rows=rows,
            older=_place(rows[-1]) if rows and (more or before is not None) else None,
            newer=_place(rows[0]) if rows and (after is not None or (before and more)) else None,
            is_capped=self._is_capped(session),
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
    ) -> Sequence[Dispatch]:
        query = select(Dispatch).where(*self._conditions())
        if before is not None:
            query = query.where(_key() > _values(before))
            query = query.order_by(Dispatch.created_at, Dispatch.id)
        else:
            if up_to is not None:
                query = query.where(_key() <= _values(up_to))
            if after is not None:
                query = query.where(_key() < _values(after))
            query = query.order_by(Dispatch.created_at.desc(), Dispatch.id.desc())
        return session.scalars(query.limit(PAGE_ROWS + 1)).all()

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

    def _is_capped(self, session: AnySession) -> bool:
        if self._matches is None or len(self._term) < SHORTEST_TEXT:
            return False
        found = session.scalar(select(func.count()).select_from(self._matches)) or 0
        return found >= FOUND_LIMIT


def normalise(text: str) -> str:
    """Return a search text as it is compared: one spelling, lower case, numbers without spaces."""
    plain = " ".join(unicodedata.normalize("NFC", text).lower().split())
    if re.fullmatch(r"\+?[\d\s().-]{4,}", plain) and any(mark in plain for mark in " ().-"):
        return re.sub(r"[\s().-]", "", plain)
    return plain


def _matches(term: str, exact: str, access: Access) -> CTE:
    """Return the ids that a text finds: at most FOUND_LIMIT, found once.

    `exact` is the text as it was typed: a provider's ids know capitals from small letters.

    Fenced on purpose: without it the planner may walk the whole table by date, looking for rows
    that are not there (3 s at ten million rows, where the fence costs 10 ms).
    """
    listed = scope_filter(Dispatch.source_id, access)
    found = [
        select(Dispatch.id).where(
            listed,
            or_(
                Dispatch.recipient_normalised == _address(term),
                Dispatch.provider_message_id == exact,
            ),
        ),
        select(Dispatch.id)
        .join(Attempt, Attempt.dispatch_id == Dispatch.id)
        .where(listed, Attempt.provider_message_id == exact),
        select(Dispatch.id).where(listed, _is_id(term)),
    ]
    if len(term) >= SHORTEST_TEXT:
        # Parts of an address would be guessed letter by letter by somebody who may not see it.
        readable = scope_filter(Dispatch.source_id, access, Permission.RECIPIENT_REVEAL)
        found.append(
            select(Dispatch.id).where(
                listed, readable, Dispatch.search_text.contains(term, autoescape=True)
            )
        )
    limited = [one.limit(FOUND_LIMIT).subquery().select() for one in found]
    return (
        select(union_all(*limited).subquery().c.id)
        .limit(FOUND_LIMIT)
        .cte("matches")
        .prefix_with("MATERIALIZED", dialect="postgresql")
    )


def _address(term: str) -> str:
    """Return the form in which an address is stored to be compared, if the term is one."""
    try:
        return ascii_address(term)
    except UnicodeError:
        return term


def _is_id(term: str) -> ColumnElement[bool]:
    found = as_id(term)
    return Dispatch.id == found if found else false()


def as_id(text: str) -> uuid.UUID | None:
    """Return the id that a text is, if it is one."""
    try:
        return uuid.UUID(text.strip())
    except ValueError:
        return None


def _key() -> ColumnElement[tuple[datetime, uuid.UUID]]:
    return tuple_(Dispatch.created_at, Dispatch.id)


def _values(place: Place) -> tuple[datetime, uuid.UUID]:
    return (place.created_at, place.id)


def _place(row: Dispatch) -> Place:
    return Place(row.created_at, row.id)
