"""What a typed text finds: parts of addresses and subjects, whole ids of ours and of providers.

Lists go through `search.py`, which adds filters, order and pages.
"""

import re
import unicodedata
import uuid

from sqlalchemy import ColumnElement, false, or_, select, union_all
from sqlalchemy.sql.selectable import CTE

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, scope_filter
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.request.addresses import ascii_address

# How many matches of a text are looked at; more would let one search hold the database.
FOUND_LIMIT = 1000
SHORTEST_TEXT = 3


def normalise(text: str) -> str:
    """Return a search text as it is compared: one spelling, lower case, single spaces."""
    return " ".join(unicodedata.normalize("NFC", text).lower().split())


def as_number(term: str) -> str:
    """Return a term that may be a phone number without what people write between its digits."""
    return re.sub(r"[\s().-]", "", term) if re.fullmatch(r"\+?[\d\s().-]{4,}", term) else ""


def matches(term: str, exact: str, access: Access) -> CTE:
    """Return the query of the ids that a text finds: at most FOUND_LIMIT, found once.

    `exact` is the text as it was typed: a provider's ids know capitals from small letters.

    Fenced on purpose: without it the planner may walk the whole table by date, looking for rows
    that are not there (3 s at ten million rows, where the fence costs 10 ms).
    """
    listed = scope_filter(Dispatch.source_id, access)
    found = [
        select(Dispatch.id).where(
            listed,
            or_(
                Dispatch.recipient_normalised.in_({_address(term), as_number(term)} - {""}),
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
                listed,
                readable,
                or_(
                    *(
                        Dispatch.search_text.contains(one, autoescape=True)
                        for one in {term, as_number(term) or term}
                    )
                ),
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
