"""`/reports`: last reports, unmatched ones, contradictions, codes without advice, refusals."""

import logging
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

from dashboard import clock
from dashboard import settings as current_settings
from dashboard.access.permissions import Role
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.reports import rejections
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.states import State
from dashboard.settings import Settings
from tests.factories import make_attempt, make_dispatch, make_source
from tests.pages.desk import counted, sign_in

Db = scoped_session[Session]
AWAY = "redis://127.0.0.1:1/0"


def make_report(session: Db, row: Dispatch | None = None, **values: Any) -> StoredReport:
    ago = values.pop("ago", 0)
    now = session.scalar(select(func.clock_timestamp()))
    defaults = {
        "provider": "anymail:postmark",
        "event": "delivered",
        "outcome": ReportOutcome.APPLIED,
        "dispatch_id": row.id if row else None,
        "received_at": now - timedelta(seconds=ago),
    }
    report = StoredReport(**{**defaults, **values})
    session.add(report)
    session.flush()
    return report


@pytest.fixture(autouse=True)
def _forgotten() -> None:
    rejections._memory.logged.clear()
    rejections._memory.away_until = float("-inf")


def test_the_last_report_of_each_provider_comes_with_its_age(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session)
    make_report(session, row, ago=9000)
    make_report(session, row, ago=95, event="in_flight")
    make_report(session, row, provider="twilio", ago=7200)
    session.commit()
    text = desk.text("/reports")
    assert text.index("anymail:postmark in flight") < text.index("twilio delivered")
    assert "1 min 35 s" in text
    assert "2 h" in text


def test_an_unmatched_one_says_what_it_says_and_when_it_is_given_up(
    app: Flask, session: Db
) -> None:
    desk = sign_in(app, session)
    make_report(
        session,
        outcome=ReportOutcome.UNMATCHED,
        provider_message_id="pm-77",
        event="failed",
        code="X9",
        reason="mailbox unknown",
        recipient="ada@example.com",
        ago=1800,
    )
    make_report(session, outcome=ReportOutcome.PENDING, provider_message_id="old-1", ago=7300)
    session.commit()
    text = desk.text("/reports")
    assert "pm-77 failed (code X9): mailbox unknown about ada@example.com" in text
    assert "in 1 h" in text or "in 89 min" in text or "in 90 min" in text
    assert "given up" in text.split("old-1")[1]
    assert "2 of 2" in text


def test_only_the_viewers_sources_are_shown(app: Flask, session: Db) -> None:
    own, other = make_source(session, "own"), make_source(session, "other")
    mine = make_dispatch(session, source=own, recipient="mine@example.com", state=State.CANCELLED)
    theirs = make_dispatch(
        session, source=other, recipient="theirs@example.com", state=State.CANCELLED
    )
    for row, provider, code in ((mine, "twilio", "77001"), (theirs, "anymail:resend", "secret")):
        make_report(session, row, provider=provider, outcome=ReportOutcome.CONFLICT, code=code)
    make_report(session, outcome=ReportOutcome.UNMATCHED, provider_message_id="whose-1")
    desk = sign_in(app, session, Role.OPERATOR, source=own)
    text = desk.text("/reports")
    assert "mine@example.com" in text
    assert "was delivered although it was cancelled" in text
    assert "77001" in text
    for hidden in ("theirs@", "anymail:resend", "secret", "whose-1"):
        assert hidden not in text
    assert "only with a grant on all sources" in text


def test_a_viewer_reads_no_address(app: Flask, session: Db) -> None:
    row = make_dispatch(session, recipient="ada@example.com", state=State.CANCELLED)
    make_report(session, row, outcome=ReportOutcome.CONFLICT)
    make_report(
        session,
        outcome=ReportOutcome.UNMATCHED,
        recipient="bob@example.com",
        reason="550 carl@example.com is unknown",
    )
    html = sign_in(app, session, Role.VIEWER).get("/reports").text
    for address in ("ada@", "bob@", "carl@"):
        assert address not in html


def test_codes_are_listed_until_somebody_writes_advice(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session)
    for code in ("39999", "39999", "30003", "550 5.1.1", "5.2.2", "422", ""):
        make_report(session, row, provider="twilio", code=code)
    make_attempt(session, row, route="twilio", code="39999")
    make_attempt(session, row, route="smtp", code="550")
    session.commit()
    text = desk.text("/reports").split("Codes we have no advice for")[1]
    assert "39999 twilio, 3 times" in text
    for known in ("30003", "550", "5.2.2", "422"):
        assert known not in text


def test_the_number_of_statements_does_not_grow_with_the_rows(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)

    def add(number: int) -> None:
        for each in range(number):
            row = make_dispatch(session, state=State.CANCELLED, recipient=f"p{each}@example.com")
            make_report(session, row, provider=f"p{each}", outcome=ReportOutcome.CONFLICT, code="q")
            make_report(session, outcome=ReportOutcome.UNMATCHED)
        session.commit()

    add(1)
    desk.get("/reports")
    with counted() as few:
        desk.get("/reports")
    add(20)
    with counted() as many:
        assert desk.get("/reports").status_code == 200
    assert len(few) == len(many) <= 10


def test_an_empty_page_says_so_and_the_rail_leads_there(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    text = desk.text("/reports")
    assert "No provider has reported yet" in text
    assert "Every report belongs to a dispatch" in text
    assert 'href="/reports"' in desk.get("/dispatches").text


# ---- refused ----------------------------------------------------------------------------------


def forge(client: FlaskClient) -> None:
    answer = client.post("/webhooks/twilio/status", data={"MessageSid": "SM1"})
    assert answer.status_code == 403


def test_refused_requests_are_counted_and_logged_once_a_minute(
    app: Flask, client: FlaskClient, session: Db, caplog: pytest.LogCaptureFixture
) -> None:
    desk = sign_in(app, session)
    with caplog.at_level(logging.WARNING, "wireroom.webhooks"):
        for _ in range(5):
            forge(client)
    assert [one.message for one in caplog.records].count("webhook refused") == 1
    assert "sandbox 5 requests" in desk.text("/reports")


def test_old_refusals_are_not_shown(settings: Settings, app: Flask) -> None:
    redis = rejections.redis_connection(settings)
    now = clock.now()
    for hours, count in ((1, 2), (23, 3), (30, 100)):
        key = rejections._key(now - timedelta(hours=hours))
        redis.hincrby(key, "twilio", count)
    assert rejections.refused_lately(settings) == [("twilio", 5)]


def test_without_redis_nothing_breaks(
    app: Flask,
    client: FlaskClient,
    session: Db,
    caplog: pytest.LogCaptureFixture,
    settings: Settings,
) -> None:
    desk = sign_in(app, session)
    current_settings.use(settings.model_copy(update={"redis_url": AWAY}))
    try:
        with caplog.at_level(logging.WARNING, "wireroom.webhooks"):
            for _ in range(3):
                forge(client)
        assert [one.message for one in caplog.records].count("webhook refused") == 1
        assert "Redis is away, and with it this count." in desk.text("/reports")
    finally:
        current_settings.use(settings)
