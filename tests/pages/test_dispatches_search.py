"""The search box: what it finds, and that nothing of it stands in an address."""

import re
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.permissions import Role
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.request.addresses import parse_address, search_forms
from dashboard.dispatch.states import Channel
from tests.factories import make_attempt, make_dispatch
from tests.pages.desk import Desk, sign_in

Db = scoped_session[Session]


def make(session: Db, recipient: str, **values: object) -> Dispatch:
    """A dispatch whose search text is as intake writes it."""
    address = parse_address(recipient)
    return make_dispatch(
        session,
        recipient=recipient,
        recipient_normalised=address.normalised,
        search_text=search_forms(recipient, address.normalised) + " your talk 482",
        **values,
    )


def found(desk: Desk, text: str) -> set[str]:
    where = desk.search(text).headers["Location"]
    return set(re.findall(r'<tr id="d-([0-9a-f-]+)">', desk.get(where).text))


@pytest.mark.parametrize(
    "text",
    [
        "ada.love",
        "EXAMPLE.COM",
        "lace+ops",
        "@example",
        "  ada.lovelace+ops@example.com  ",
        "Ada.Lovelace+Ops@Example.com",
    ],
)
def test_parts_of_an_address_are_found_in_any_case(app: Flask, session: Db, text: str) -> None:
    desk = sign_in(app, session)
    row = make(session, "Ada.Lovelace+Ops@Example.com")
    make(session, "grace@other.test.org")
    session.commit()
    assert found(desk, text) == {str(row.id)}


@pytest.mark.parametrize("text", ["x@bücher.example", "x@xn--bcher-kva.example", "BÜCHER"])
def test_an_international_domain_is_found_by_either_spelling(
    app: Flask, session: Db, text: str
) -> None:
    desk = sign_in(app, session)
    row = make(session, "x@bücher.example")
    session.commit()
    assert found(desk, text) == {str(row.id)}


@pytest.mark.parametrize("text", ["+1 202 555 0118", "(202) 555-0118", "5550118"])
def test_a_number_is_found_however_it_is_written(app: Flask, session: Db, text: str) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(
        session, channel=Channel.SMS, recipient="+12025550118", search_text="+12025550118"
    )
    session.commit()
    assert found(desk, text) == {str(row.id)}


def test_signs_of_the_pattern_language_stand_for_themselves(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, search_text="100% of a_b\\c")
    make_dispatch(session, search_text="100 of aXbc")
    session.commit()
    for text in ("100%", "a_b", "b\\c"):
        assert found(desk, text) == {str(row.id)}, text


def test_provider_ids_are_found_also_of_earlier_attempts(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, provider_message_id="SM-second")
    make_attempt(session, row, provider_message_id="SM-first")
    session.commit()
    for text in ("SM-first", "SM-second"):
        assert found(desk, text) == {str(row.id)}, text


def test_an_id_leads_to_its_page(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session)
    session.commit()
    assert desk.search(f" {row.id} ").headers["Location"] == f"/dispatches/{row.id}"


def test_no_part_of_the_text_stands_in_the_address(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    where = desk.search("ada@example.com").headers["Location"]
    assert "ada" not in where.lower()
    assert "example" not in where
    page = desk.get(where).text
    links = re.findall(r'(?:href|hx-get|action)="([^"]*)"', page)
    assert not [link for link in links if "ada@" in link]
    assert "contains “ada@example.com”" in page


def test_a_text_that_was_sealed_elsewhere_is_left_out_and_said(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    page = desk.text("/dispatches?view=all&q=gAAAAABforged")
    assert "is left out. Type it again." in page


def test_two_letters_are_too_few_and_said(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    make(session, "ada@example.com")
    session.commit()
    where = desk.search("ad").headers["Location"]
    assert "from three letters on" in desk.text(where)


def test_a_capped_search_says_so(app: Flask, session: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.dispatch.lists.search.FOUND_LIMIT", 3)
    monkeypatch.setattr("dashboard.dispatch.lists.search_text.FOUND_LIMIT", 3)
    desk = sign_in(app, session)
    for number in range(5):
        make(session, f"person-{number}@example.com")
    session.commit()
    where = desk.search("person").headers["Location"]
    assert "Newest of the first 1,000 found" in desk.text(where)


def test_who_may_not_see_addresses_cannot_guess_them_by_letters(app: Flask, session: Db) -> None:
    row = make(session, "ada@example.com")
    desk = sign_in(app, session, Role.VIEWER)
    assert found(desk, "ada@") == set()
    assert found(desk, "ada@example.com") == {str(row.id)}


def test_a_search_keeps_its_text_over_pages_and_filters(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    for number in range(60):
        make(session, f"person-{number}@example.com")
    session.commit()
    where = desk.search("person").headers["Location"]
    html = desk.get(where).text
    older = re.search(r'rel="next" href="([^"]+)"', html)
    assert older
    token = parse_qs(urlsplit(where).query)["q"]
    assert parse_qs(urlsplit(older[1].replace("&amp;", "&")).query)["q"] == token
    assert f'name="q" value="{token[0]}"' in html
