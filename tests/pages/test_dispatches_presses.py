"""The presses, with and without htmx: one press each, the loser told, a second copy asked about."""

import re

import pytest
from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.models import Activity
from dashboard.access.permissions import Role
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Failure, State
from tests.factories import make_dispatch
from tests.pages.desk import sign_in, words

Db = scoped_session[Session]


def fresh(session: Db, row: Dispatch) -> Dispatch:
    session.expire_all()
    found = session.get(Dispatch, row.id)
    assert found
    return found


def test_try_again_queues_it_and_comes_back_with_the_news(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED, tries=12)
    session.commit()
    page = f"/dispatches/{row.id}"
    answer = desk.press(page, f"{page}/retry")
    assert (answer.status_code, answer.headers["Location"]) == (303, page)
    assert fresh(session, row).state is State.QUEUED
    assert "Queued again" in desk.text(page)
    assert "Queued again" not in desk.text(page)
    activity = session.scalars(select(Activity)).one()
    assert (activity.actor, activity.action) == ("user:operator@example.com", "dispatch.retry")


def test_htmx_gets_the_fragment_that_was_pressed_on(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.STALLED)
    session.commit()
    page = f"/dispatches/{row.id}"
    answer = desk.press(page, f"{page}/retry", htmx=True)
    assert answer.status_code == 200
    assert answer.text.lstrip().startswith('<div id="dispatch"')
    assert "Queued again" in answer.text


def test_a_press_in_the_list_answers_with_the_list_as_it_was_filtered(
    app: Flask, session: Db
) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED)
    make_dispatch(session, state=State.SENT, subject="Not in this list")
    session.commit()
    page = "/dispatches?view=active"
    answer = desk.press(page, f"/dispatches/{row.id}/retry", htmx=True)
    assert answer.text.lstrip().startswith('<div id="results"')
    assert "Not in this list" not in answer.text
    assert "Queued again" in answer.text
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED)
    session.commit()
    answer = desk.press(page, f"/dispatches/{row.id}/retry")
    assert (answer.status_code, answer.headers["Location"]) == (303, page)


def test_cancel_takes_a_reason_that_the_page_shows(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session)
    session.commit()
    page = f"/dispatches/{row.id}"
    assert desk.press(page, f"{page}/cancel", reason="wrong template").status_code == 303
    text = desk.text(page)
    assert "Cancelled by operator@example.com" in text
    assert "wrong template" in text


def test_resend_makes_a_new_one_and_leads_to_it(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.REFUSED, permanent=True)
    session.commit()
    page = f"/dispatches/{row.id}"
    answer = desk.press(page, f"{page}/resend", htmx=True)
    new = session.scalars(select(Dispatch).where(Dispatch.replaces_id == row.id)).one()
    assert answer.status_code == 200
    assert f'href="/dispatches/{new.id}"' in answer.text
    assert fresh(session, row).replaced_by_id == new.id


@pytest.mark.parametrize("htmx", [True, False])
def test_the_loser_of_a_race_reads_who_won(app: Flask, session: Db, htmx: bool) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED)
    session.commit()
    page = f"/dispatches/{row.id}"
    fields = desk.fields(page, f"{page}/resend")
    assert desk.press(page, f"{page}/resend").status_code == 303
    headers = {"HX-Request": "true"} if htmx else {}
    answer = desk.client.post(f"{page}/resend", data=fields, headers=headers)
    text = words(answer.text) if htmx else desk.text(page)
    assert answer.status_code == (409 if htmx else 303)
    assert re.search(r"Already resent by operator@example\.com at \d\d:\d\d UTC\.", text)
    assert len(session.scalars(select(Dispatch)).all()) == 2


def test_a_press_on_an_old_page_is_refused_with_what_changed(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED)
    session.commit()
    page = f"/dispatches/{row.id}"
    answer = desk.press(page, f"{page}/retry", version="999", htmx=True)
    assert answer.status_code == 409
    assert "It changed while you looked at it" in answer.text
    assert fresh(session, row).state is State.ERRORED


@pytest.mark.parametrize("version", ["", "x", "-1", "1e3", "٣"])
def test_a_broken_version_is_no_version(app: Flask, session: Db, version: str) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED)
    session.commit()
    page = f"/dispatches/{row.id}"
    answer = desk.press(page, f"{page}/retry", version=version, htmx=True)
    assert answer.status_code == 409


def test_a_second_copy_is_asked_about_first(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.SUCCEEDED)
    session.commit()
    page = f"/dispatches/{row.id}"
    assert f'href="{page}/resend"' in desk.get(page).text
    asking = f"{page}/resend"
    assert "may get it twice" in desk.text(asking)
    assert not session.scalars(select(Dispatch).where(Dispatch.replaces_id == row.id)).all()
    assert desk.press(asking, asking).status_code == 303
    assert session.scalars(select(Dispatch).where(Dispatch.replaces_id == row.id)).one()


def test_a_press_that_turns_out_to_need_asking_leads_to_the_page_that_asks(
    app: Flask, session: Db
) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED)
    session.commit()
    page = f"/dispatches/{row.id}"
    fields = desk.fields(page, f"{page}/retry")
    row.maybe_sent = True
    session.commit()
    answer = desk.client.post(f"{page}/retry", data=fields)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{page}/retry")
    answer = desk.client.post(f"{page}/retry", data=fields, headers={"HX-Request": "true"})
    assert answer.headers["HX-Redirect"] == f"{page}/retry"


def test_acknowledge_takes_it_off_the_list(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.UNCONFIRMED)
    session.commit()
    page = f"/dispatches/{row.id}"
    desk.press(page, f"{page}/acknowledge", reason="seen by phone")
    assert "Nothing needs attention" in desk.text("/dispatches?view=attention")


@pytest.mark.parametrize("name", ["retry", "resend", "cancel", "acknowledge"])
def test_a_viewer_cannot_press_even_by_hand(app: Flask, session: Db, name: str) -> None:
    row = make_dispatch(session, state=State.ERRORED)
    desk = sign_in(app, session, Role.VIEWER)
    fields = desk.fields("/dispatches", "/dispatches/search")
    answer = desk.client.post(
        f"/dispatches/{row.id}/{name}", data={**fields, "version": str(row.version)}
    )
    assert answer.status_code == 403
    assert fresh(session, row).state is State.ERRORED


def test_a_press_without_the_forms_token_changes_nothing(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED)
    session.commit()
    answer = desk.client.post(f"/dispatches/{row.id}/retry", data={"version": "1"})
    assert answer.status_code in (400, 403)
    assert fresh(session, row).state is State.ERRORED


def test_the_way_back_leads_nowhere_else(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED)
    session.commit()
    page = f"/dispatches/{row.id}"
    answer = desk.press(page, f"{page}/retry", back="//evil.example/?view=all")
    assert answer.headers["Location"].startswith("/dispatches")


def test_the_theme_is_kept_without_a_script(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    answer = desk.press("/dispatches?view=all", "/preferences/theme", theme="dark")
    assert answer.headers["Location"] == "/dispatches?view=all"
    assert '<html lang="en" data-theme="dark"' in desk.get("/dispatches").text
