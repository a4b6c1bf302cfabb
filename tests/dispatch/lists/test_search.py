"""Finder: order, places, caps and texts, asked without a page around it."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.permissions import ROLES, Role
from dashboard.access.scope import Access
from dashboard.dispatch.lists.search import (
    ATTENTION_ROWS,
    Filters,
    Finder,
    Place,
    View,
    count_attention,
)
from dashboard.dispatch.lists.search_text import as_number, normalise
from dashboard.dispatch.states import State
from tests.factories import make_dispatch, make_source

Db = scoped_session[Session]
EVERYWHERE = Access("user:ada", everywhere=ROLES[Role.OPERATOR])


@pytest.mark.parametrize(
    ("typed", "compared"),
    [
        ("  Ada@Example.COM ", "ada@example.com"),
        ("Room  12", "room 12"),
        ("e\u0301te", "\u00e9te"),
        ("   ", ""),
    ],
)
def test_a_text_is_compared_in_one_spelling(typed: str, compared: str) -> None:
    assert normalise(typed) == compared


@pytest.mark.parametrize(
    ("typed", "number"),
    [("+1 (202) 555-0118", "+12025550118"), ("2025550118", "2025550118"), ("hall 2", "")],
)
def test_a_number_is_looked_for_without_its_spaces(typed: str, number: str) -> None:
    assert as_number(typed) == number


def test_a_receipt_is_found_with_its_hyphen(session: Db) -> None:
    row = make_dispatch(session, search_text="ada@example.com receipt 2027-0482")
    page = Finder(EVERYWHERE, Filters(text="2027-0482")).page(session)
    assert page.rows == [row]


def test_a_page_begins_behind_its_place_to_the_microsecond(session: Db) -> None:
    moment = datetime(2026, 12, 1, 12, 0, 0, 123456, tzinfo=UTC)
    rows = [make_dispatch(session, created_at=moment) for _ in range(3)]
    rows.sort(key=lambda row: row.id, reverse=True)
    finder = Finder(EVERYWHERE, Filters(view=View.ALL))
    page = finder.page(session, after=Place(moment, rows[0].id))
    assert [row.id for row in page.rows] == [rows[1].id, rows[2].id]
    page = finder.page(session, before=Place(moment, rows[2].id))
    assert [row.id for row in page.rows] == [rows[0].id, rows[1].id]


def test_the_first_page_has_no_newer_one_and_the_last_no_older_one(session: Db) -> None:
    for _ in range(51):
        make_dispatch(session, state=State.SENT)
    finder = Finder(EVERYWHERE, Filters())
    first = finder.page(session)
    assert first.newer is None
    assert first.older is not None
    last = finder.page(session, after=first.older)
    assert last.older is None
    assert last.newer is not None
    again = finder.page(session, before=last.newer)
    assert again.newer is None
    assert [row.id for row in again.rows] == [row.id for row in first.rows]


def test_a_flood_of_failures_leaves_room_for_the_stalled_and_the_newest(session: Db) -> None:
    stalled = make_dispatch(session, state=State.STALLED)
    for _ in range(ATTENTION_ROWS + 5):
        make_dispatch(session, state=State.ERRORED)
    newest = make_dispatch(session)
    page = Finder(EVERYWHERE, Filters()).page(session)
    assert len(page.attention) == ATTENTION_ROWS
    assert page.attention[0].id == stalled.id
    assert [row.id for row in page.rows] == [newest.id]
    assert session.scalar(count_attention(EVERYWHERE)) == ATTENTION_ROWS + 6


def test_counts_and_rows_keep_to_the_same_scope(session: Db) -> None:
    own, foreign = make_source(session, "own"), make_source(session, "foreign")
    make_dispatch(session, source=foreign, state=State.ERRORED)
    row = make_dispatch(session, source=own, state=State.ERRORED)
    access = Access("user:ada", by_source={own.id: ROLES[Role.OPERATOR]})
    finder = Finder(access, Filters(text="ada@example"))
    assert [one.id for one in finder.page(session).rows] == [row.id]
    assert session.scalar(count_attention(access)) == 1
    before = Place(datetime(2020, 1, 1, tzinfo=UTC), row.id)
    assert finder.count_newer(session, before) == 1


def test_an_exact_id_is_found_and_a_broken_one_is_a_text(session: Db) -> None:
    row = make_dispatch(session)
    assert Finder(EVERYWHERE, Filters(text=str(row.id).upper())).page(session).rows == [row]
    assert not Finder(EVERYWHERE, Filters(text=str(row.id)[:-1])).page(session).rows


def test_the_text_search_goes_by_the_trigram_index(session: Db) -> None:
    session.execute(text("SET LOCAL enable_seqscan = off"))
    query = (
        "EXPLAIN SELECT id FROM dispatch WHERE search_text LIKE '%' || 'ada.love' || '%' LIMIT 9"
    )
    plan = "\n".join(session.scalars(text(query)))
    assert "ix_dispatch_search" in plan


@pytest.mark.parametrize(
    ("condition", "index"),
    [
        ("channel = 'sms'", "ix_dispatch_by_channel"),
        ("state = 'cancelled'", "ix_dispatch_cancelled"),
        ("state = 'errored'", "ix_dispatch_by_state"),
        ("true", "ix_dispatch_newest"),
    ],
)
def test_the_newest_of_each_filter_come_in_order_from_an_index(
    session: scoped_session[Session], condition: str, index: str
) -> None:
    # Walking the others instead takes time with the size of the table, not of the page.
    session.execute(text("SET LOCAL enable_seqscan = off"))
    session.execute(text("SET LOCAL enable_sort = off"))
    plan = session.scalars(
        text(
            f"EXPLAIN SELECT id FROM dispatch WHERE {condition}"  # noqa: S608  fixed texts
            " ORDER BY created_at DESC, id DESC LIMIT 101"
        )
    ).all()

    assert index in "\n".join(plan)
