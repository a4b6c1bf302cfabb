"""`/suppressions`: see and lift, within the scope and with the permission."""

import uuid

from flask import Flask
from sqlalchemy import select, update
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.models import Activity
from dashboard.access.permissions import Role
from dashboard.dispatch.models import Dispatch, Suppression
from dashboard.dispatch.states import Failure, State
from dashboard.dispatch.suppressions import suppress
from tests.factories import make_dispatch, make_source
from tests.pages.desk import counted, sign_in

Db = scoped_session[Session]


def make_suppression(session: Db, row: Dispatch, reason: str = "550 5.1.1 gone") -> Suppression:
    session.execute(suppress(row, reason))
    session.commit()
    return session.scalars(select(Suppression).where(Suppression.dispatch_id == row.id)).one()


def test_a_held_back_dispatch_leads_to_its_suppression_and_back(app: Flask, session: Db) -> None:
    desk = sign_in(app, session, Role.MAINTAINER)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.SUPPRESSED)
    make_suppression(session, make_dispatch(session, recipient="other@example.com"))
    found = make_suppression(session, row)
    page = f"/dispatches/{row.id}"
    place = f"/suppressions?dispatch={row.id}"
    html = desk.get(page).text
    assert f'href="{place}"' in html
    assert "Its recipient is on the suppression list." in html
    assert html.index("Try again") < html.index("Resend")
    text = desk.text(place)
    assert "ada@example.com" in text
    assert "550 5.1.1 gone" in text
    assert "other@example.com" not in text
    answer = desk.press(place, f"/suppressions/{found.id}/lift")
    assert (answer.status_code, answer.headers["Location"]) == (303, page)
    assert "Lifted: messages go there again." in desk.text(page)
    session.expire_all()
    assert session.get_one(Suppression, found.id).lifted_by == "user:operator@example.com"
    activity = session.scalars(select(Activity)).one()
    assert (activity.action, activity.subject_id) == ("suppression.lift", str(found.id))
    assert "ada@" not in desk.text("/suppressions")


def test_the_second_lift_reads_who_was_first(app: Flask, session: Db) -> None:
    desk = sign_in(app, session, Role.MAINTAINER)
    found = make_suppression(session, make_dispatch(session))
    fields = desk.fields("/suppressions", f"/suppressions/{found.id}/lift")
    desk.press("/suppressions", f"/suppressions/{found.id}/lift")
    desk.client.post(f"/suppressions/{found.id}/lift", data=fields)
    assert "Already lifted by operator@example.com" in desk.text("/suppressions")
    assert len(session.scalars(select(Activity)).all()) == 1


def test_each_sees_and_lifts_those_of_their_sources(app: Flask, session: Db) -> None:
    own, other = make_source(session, "own"), make_source(session, "other")
    mine = make_suppression(session, make_dispatch(session, source=own, recipient="me@a.example"))
    theirs = make_suppression(
        session, make_dispatch(session, source=other, recipient="you@a.example")
    )
    everybodys = make_suppression(
        session, make_dispatch(session, source=own, recipient="all@a.example")
    )
    session.execute(
        update(Suppression).where(Suppression.id == everybodys.id).values(source_id=None)
    )
    session.commit()
    desk = sign_in(app, session, Role.MAINTAINER, source=own)
    text = desk.text("/suppressions")
    assert "me@a.example" in text
    assert "you@" not in text
    assert "all@" not in text
    fields = desk.fields("/suppressions", f"/suppressions/{mine.id}/lift")
    for one in (theirs.id, everybodys.id, uuid.uuid4()):
        assert desk.client.post(f"/suppressions/{one}/lift", data=fields).status_code == 404
    everywhere = sign_in(app, session, Role.MAINTAINER, email="chief@example.com")
    assert "of all sources" in everywhere.text("/suppressions")
    everywhere.press("/suppressions", f"/suppressions/{everybodys.id}/lift")
    assert "all@" not in everywhere.text("/suppressions")


def test_who_may_not_lift_reads_no_button_and_a_viewer_no_address(app: Flask, session: Db) -> None:
    row = make_dispatch(session)
    found = make_suppression(session, row, "550 ada@example.com is gone")
    operator = sign_in(app, session)
    html = operator.get("/suppressions").text
    assert "ada@example.com" in html
    assert "/lift" not in html
    fields = operator.fields("/dispatches", "/dispatches/search")
    assert operator.client.post(f"/suppressions/{found.id}/lift", data=fields).status_code == 403
    viewer = sign_in(app, session, Role.VIEWER, email="viewer@example.com")
    assert "ada@" not in viewer.get("/suppressions").text


def test_a_broken_link_shows_all_and_the_page_takes_few_statements(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    for number in range(20):
        make_suppression(session, make_dispatch(session, recipient=f"p{number}@example.com"))
    assert "p7@example.com" in desk.text("/suppressions?dispatch=nonsense")
    with counted() as statements:
        desk.get("/suppressions")
    assert len(statements) <= 6
