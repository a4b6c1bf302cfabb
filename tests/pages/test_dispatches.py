"""The list: groups, views, filters, pages, scope, live updates, statements."""

import re
from datetime import timedelta

import pytest
from flask import Flask
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.permissions import Role
from dashboard.dispatch.models import RoutePause
from dashboard.dispatch.states import Channel, Failure, State
from tests.factories import make_dispatch, make_source
from tests.pages.desk import counted, sign_in, words

Db = scoped_session[Session]


def rows_of(html: str) -> list[str]:
    """The ids of the rows, in the order of the page."""
    return re.findall(r'<tr id="d-([0-9a-f-]+)">', html)


def make_many(session: Db, number: int, **values: object) -> list[str]:
    """Dispatches, one a minute, the newest first."""
    now = session.scalar(select(func.now()))
    made = [
        make_dispatch(
            session,
            subject=f"Number {place}",
            created_at=now - timedelta(minutes=place),
            **values,
        )
        for place in range(number)
    ]
    session.commit()
    return [str(row.id) for row in made]


def test_nobody_sees_the_list_without_signing_in(app: Flask) -> None:
    answer = app.test_client().get("/dispatches")
    assert answer.status_code == 303
    assert "example.com" not in answer.text


def test_home_leads_to_the_list(app: Flask, session: Db) -> None:
    assert sign_in(app, session).get("/").headers["Location"] == "/dispatches"


def test_what_needs_attention_stands_first_and_worst_first(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    newest = make_dispatch(session, state=State.SENT)
    unknown = make_dispatch(session, state=State.UNCONFIRMED)
    failed = make_dispatch(session, state=State.ERRORED, failure=Failure.REFUSED)
    stalled = make_dispatch(session, state=State.STALLED)
    seen = make_dispatch(session, state=State.UNCONFIRMED, acknowledged_at=func.now())
    replaced = make_dispatch(session, state=State.ERRORED, replaced_by_id=newest.id)
    session.commit()
    page = desk.get("/dispatches").text
    urgent, _, others = page.partition('id="newest"')
    assert rows_of(urgent) == [str(stalled.id), str(failed.id), str(unknown.id)]
    assert set(rows_of(others)) == {str(newest.id), str(seen.id), str(replaced.id)}
    assert "<title>(3) Dispatches" in page
    assert rows_of(desk.get("/dispatches?view=attention").text) == [
        str(one.id) for one in (stalled, failed, unknown)
    ]


def test_views_and_filters_choose_rows(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    sms = make_dispatch(session, channel=Channel.SMS, recipient="+12025550143")
    sent = make_dispatch(session, state=State.SENT)
    errored = make_dispatch(session, state=State.ERRORED)
    session.commit()
    for query, expected in (
        ("view=active", {sms.id, errored.id}),
        ("view=done", {sent.id}),
        ("view=all", {sms.id, sent.id, errored.id}),
        ("state=sent", {sent.id}),
        ("channel=sms", {sms.id}),
        ("view=all&channel=email&state=errored", {errored.id}),
    ):
        found = rows_of(desk.get(f"/dispatches?{query}").text)
        assert set(found) == {str(one) for one in expected}, query
    page = desk.text("/dispatches?state=delayed&channel=sms")
    assert "No dispatch matches" in page
    assert "state is delayed" in page


@pytest.mark.parametrize(
    "query", ["view=x", "state=gone", "channel=fax", "after=abc", "before=1.2"]
)
def test_an_argument_that_is_none_of_ours_is_refused_in_words(
    app: Flask, session: Db, query: str
) -> None:
    answer = sign_in(app, session).get(f"/dispatches?{query}")
    assert answer.status_code == 400
    assert "Traceback" not in answer.text


def test_pages_lead_there_and_back_without_a_row_lost_or_shown_twice(
    app: Flask, session: Db
) -> None:
    desk = sign_in(app, session)
    # Rows of one transaction have one created_at: the id has to break the tie.
    ids = make_many(session, 60, state=State.SENT)
    same = [str(make_dispatch(session, state=State.SENT).id) for _ in range(65)]
    session.commit()
    html = desk.get("/dispatches?view=all").text
    seen = [rows_of(html)]
    while link := re.search(r'rel="next" href="([^"]+)"', html):
        html = desk.get(link[1].replace("&amp;", "&")).text
        seen.append(rows_of(html))
    flat = [one for page in seen for one in page]
    assert [len(page) for page in seen] == [50, 50, 25]
    assert len(flat) == len(set(flat)) == 125
    assert set(flat) == set(ids) | set(same)
    back = re.search(r'rel="prev" href="([^"]+)"', html)
    assert back
    assert rows_of(desk.get(back[1].replace("&amp;", "&")).text) == seen[1]


def test_a_row_says_what_happened_and_has_its_one_button(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    make_dispatch(
        session,
        state=State.ERRORED,
        failure=Failure.EXHAUSTED,
        error="451 4.7.1 Try again later",
        provider="smtp",
        worker="w-2d",
        tries=12,
        attempts=12,
        file_count=2,
    )
    session.commit()
    page = desk.text("/dispatches")
    for expected in ("Not sent", "ada@example.com", "451 4.7.1", "w-2d", "12 of 12", "Try again"):
        assert expected in page


def test_a_viewer_sees_masked_recipients_and_no_buttons(app: Flask, session: Db) -> None:
    row = make_dispatch(session, state=State.ERRORED)
    desk = sign_in(app, session, Role.VIEWER)
    for path in ("/dispatches", f"/dispatches/{row.id}"):
        html = desk.get(path).text
        assert "ada@example.com" not in html, path
        assert "a•••@example.com" in html
        assert "/retry" not in html
    assert "You need the permission dispatch:retry" in desk.text(f"/dispatches/{row.id}")


def test_other_sources_do_not_exist(app: Flask, session: Db) -> None:
    own, foreign = make_source(session, "own"), make_source(session, "foreign")
    make_dispatch(session, source=own, subject="Ours")
    hidden = make_dispatch(session, source=foreign, subject="Theirs", state=State.ERRORED)
    desk = sign_in(app, session, source=own)
    html = desk.get("/dispatches").text
    assert "Ours" in html
    assert "Theirs" not in html
    assert "need attention" not in html
    for path in ("", "/live", "/retry", "/preview"):
        assert desk.get(f"/dispatches/{hidden.id}{path}").status_code == 404, path


def test_hostile_text_is_shown_inert(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    bad = '"><img src=x onerror=alert(1)>{{7*7}}</script><svg onload=alert(1)>\u202e'
    row = make_dispatch(
        session,
        subject=bad,
        state=State.ERRORED,
        error=bad,
        provider=bad,
        worker=bad,
        kind=bad,
        target_type=bad,
        target_id=bad,
        labels={bad: bad},
        text=bad,
        html=bad,
    )
    session.commit()
    for path in ("/dispatches", f"/dispatches/{row.id}"):
        html = desk.get(path).text
        assert "<img src=x" not in html, path
        assert "<svg onload" not in html
        assert "{{7*7}}" in html


def test_the_poller_is_told_204_until_a_row_changes(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, subject="The one")
    session.commit()
    poll = _poll(desk.get("/dispatches").text)
    assert desk.get(poll, htmx=True).status_code == 204
    row.version += 1
    row.updated_at = func.clock_timestamp()
    session.commit()
    answer = desk.get(poll, htmx=True)
    assert answer.status_code == 200
    assert 'id="results" hx-swap-oob="morph"' in answer.text
    assert 'id="live"' in answer.text
    assert desk.get(_poll(answer.text), htmx=True).status_code == 204


def test_newer_rows_wait_behind_a_link(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    make_dispatch(session, subject="The old one")
    session.commit()
    poll = _poll(desk.get("/dispatches").text)
    make_dispatch(session, subject="The new one")
    session.commit()
    answer = words(desk.get(poll, htmx=True).text)
    assert "1 newer, show them" in answer
    assert "The new one" not in answer
    assert "The new one" in desk.text("/dispatches")


def test_the_fragment_and_the_page_share_an_address_and_say_so(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    answer = desk.get("/dispatches", htmx=True)
    assert answer.text.lstrip().startswith('<div id="results"')
    assert "HX-Request" in answer.headers["Vary"]
    assert answer.headers["Cache-Control"] == "no-store"


def test_a_paused_route_and_the_sandbox_are_said_on_every_page(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session)
    session.add(RoutePause(route="smtp", reason="535 Wrong password."))
    session.commit()
    for path in ("/dispatches", f"/dispatches/{row.id}"):
        page = desk.text(path)
        assert "smtp is paused. 535 Wrong password." in page
        assert "Sandbox: nothing leaves this machine. Set SMTP_URL to send real email." in page


def test_the_list_takes_six_statements_whatever_it_shows(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    make_many(session, 3)
    with counted() as few:
        assert desk.get("/dispatches").status_code == 200
    make_many(session, 120, state=State.ERRORED)
    make_many(session, 120, state=State.DELAYED)
    with counted() as many:
        assert desk.get("/dispatches").status_code == 200
    assert len(few) == len(many) <= 6, "\n".join(many)
    searched = desk.search("ada@example").headers["Location"]
    with counted() as found:
        assert desk.get(searched).status_code == 200
    assert len(found) <= 6, "\n".join(found)


def _poll(html: str) -> str:
    found = re.search(r'data-poll hx-get="([^"]+)"', html)
    assert found, html[:400]
    return found[1].replace("&amp;", "&")
