"""The page of one dispatch: sentence, buttons, history, content, facts, live updates."""

import re
from datetime import timedelta

from flask import Flask
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.permissions import Role
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import Dispatch, Transition
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.states import Channel, Failure, State
from dashboard.providers.base import OutcomeKind
from tests.factories import make_attempt, make_dispatch
from tests.pages.desk import counted, sign_in

Db = scoped_session[Session]


def make_story(session: Db) -> Dispatch:
    """An email that was put off once, accepted, and is awaiting its report; it has two files."""
    now = session.scalar(select(func.now()))
    row = make_dispatch(
        session,
        state=State.AWAITING,
        provider="smtp",
        worker="w-7f",
        finished_at=now,
        provider_message_id="<abc@mx>",
        target_type="invitation",
        target_id="482",
        labels={"presenter": "77"},
        html="<p>Dear speaker</p>",
        text="Dear speaker, in text",
        file_count=2,
    )
    first = make_attempt(
        session,
        row,
        claimed_at=now - timedelta(minutes=5),
        handed_over_at=now - timedelta(minutes=5),
        finished_at=now - timedelta(minutes=5),
        outcome=OutcomeKind.TRANSIENT,
        detail="451 Greylisted",
        evidence=int(Evidence.ABSENT),
    )
    for source, target, trigger, ago, attempt, note in (
        ("queued", "sending", "claim", 300, 1, ""),
        ("sending", "delayed", "defer", 299, 1, first.detail),
        ("delayed", "sending", "claim", 2, 2, ""),
        ("sending", "awaiting", "accept", 1, 2, "250 ok"),
    ):
        session.add(
            Transition(
                dispatch_id=row.id,
                state_from=source,
                state_to=target,
                trigger=trigger,
                at=now - timedelta(seconds=ago),
                actor="worker:w-7f",
                attempt=attempt,
                note=note,
            )
        )
    make_attempt(
        session,
        row,
        claimed_at=now,
        handed_over_at=now,
        finished_at=now,
        outcome=OutcomeKind.ACCEPTED,
        detail="250 ok",
        evidence=int(Evidence.ACCEPTED),
    )
    for place, name in enumerate(("schedule.pdf", "отчёт Q4.pdf")):
        attachment = Attachment(
            source_id=row.source_id,
            filename=name,
            content_type="application/pdf",
            size=184_000,
            sha256="0" * 64,
            storage_key=name,
        )
        session.add(attachment)
        session.flush()
        session.add(
            DispatchAttachment(dispatch_id=row.id, position=place, attachment_id=attachment.id)
        )
    session.commit()
    return row


def test_the_page_tells_the_whole_story(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_story(session)
    page = desk.text(f"/dispatches/{row.id}")
    for expected in (
        "accepted it",
        "451 Greylisted",
        "invitation 482",
        "presenter is 77",
        "programme-site",
        "отчёт Q4.pdf",
        "184 kB",
        str(row.id),
        "<abc@mx>",
        "Dear speaker, in text",
        "Message-ID",
        "Copy for ticket",
    ):
        assert expected in page, expected


def test_the_page_takes_ten_statements_at_most(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_story(session)
    make_dispatch(session, target_type="invitation", target_id="482", replaces_id=row.id)
    session.commit()
    with counted() as sent:
        assert desk.get(f"/dispatches/{row.id}").status_code == 200
    assert len(sent) <= 10, "\n".join(sent)


def test_the_html_is_framed_and_never_in_the_page(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, html="<p id=inside>Dear speaker</p>")
    session.commit()
    html = desk.get(f"/dispatches/{row.id}").text
    assert "id=inside" not in html
    frame = re.search(r"<iframe[^>]*>", html)
    assert frame
    assert 'sandbox=""' in frame[0]
    assert f'src="/dispatches/{row.id}/preview"' in frame[0]


def test_a_viewer_learns_which_permission_the_content_needs(app: Flask, session: Db) -> None:
    row = make_dispatch(session, text="Secret words", html="<b>Secret</b>")
    desk = sign_in(app, session, Role.VIEWER)
    page = desk.text(f"/dispatches/{row.id}")
    assert "Secret words" not in page
    assert "You need the permission content:read" in page
    assert desk.get(f"/dispatches/{row.id}/preview").status_code == 403


def test_a_text_message_shows_its_body_and_segments(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(
        session, channel=Channel.SMS, recipient="+12025550143", text="Room changed", subject=""
    )
    session.commit()
    page = desk.text(f"/dispatches/{row.id}")
    assert "Room changed" in page
    assert "1 segment" in page


def test_what_replaced_it_and_others_of_its_target_are_linked(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    new = make_dispatch(session, subject="The second", target_type="invitation", target_id="1")
    old = make_dispatch(
        session,
        state=State.ERRORED,
        failure=Failure.REFUSED,
        replaced_by_id=new.id,
        target_type="invitation",
        target_id="1",
    )
    session.commit()
    html = desk.get(f"/dispatches/{old.id}").text
    assert f'href="/dispatches/{new.id}"' in html
    assert "replaced it" in html
    assert f"/dispatches/{old.id}/retry" not in html


def test_an_unknown_id_is_a_page_in_words(app: Flask, session: Db) -> None:
    answer = sign_in(app, session).get("/dispatches/01a22f83-e952-73ce-a1fd-b0873787dc35")
    assert answer.status_code == 404
    assert "Traceback" not in answer.text


def test_a_report_reaches_the_open_page_at_the_next_poll(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_story(session)
    html = desk.get(f"/dispatches/{row.id}").text
    poll = _poll(html)
    assert float(re.search(r"every ([\d.]+)s", html)[1]) < 2  # type: ignore[index]
    assert desk.get(poll, htmx=True).status_code == 204
    session.add(
        StoredReport(
            provider="smtp",
            event="deferred",
            reason="Mailbox is busy",
            dispatch_id=row.id,
            attempt=2,
            outcome=ReportOutcome.IGNORED,
        )
    )
    session.commit()
    answer = desk.get(poll, htmx=True)
    assert answer.status_code == 200
    assert 'id="dispatch" hx-swap-oob="morph"' in answer.text
    assert "Mailbox is busy" in answer.text
    assert desk.get(_poll(answer.text), htmx=True).status_code == 204


def test_a_quiet_poll_takes_two_statements(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_story(session)
    poll = _poll(desk.get(f"/dispatches/{row.id}").text)
    with counted() as sent:
        assert desk.get(poll, htmx=True).status_code == 204
    assert len(sent) <= 2, "\n".join(sent)


def test_nothing_polls_where_nothing_can_change(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    for state in (State.SENT, State.SUCCEEDED, State.CANCELLED):
        row = make_dispatch(session, state=state, finished_at=func.now())
        session.commit()
        assert "data-poll" not in desk.get(f"/dispatches/{row.id}").text, state


def test_every_state_has_a_page(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    for state in State:
        for failure in Failure:
            row = make_dispatch(session, state=state, failure=failure, error="Because.")
            session.commit()
            assert desk.get(f"/dispatches/{row.id}").status_code == 200, (state, failure)


def test_times_are_in_the_zone_that_the_browser_named(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    desk.client.set_cookie("tz", "Asia%2FKolkata")
    assert "Times in IST" in desk.text("/dispatches")
    desk.client.set_cookie("tz", "../../etc/passwd")
    assert "Times in UTC" in desk.text("/dispatches")


def _poll(html: str) -> str:
    found = re.search(r'data-poll hx-get="([^"]+)"', html)
    assert found, html[:400]
    return found[1].replace("&amp;", "&")
