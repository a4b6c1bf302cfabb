"""Polling and look-ups against the stand-in, through the real client."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.scope import access_of_command
from dashboard.dispatch import claims, outcomes
from dashboard.dispatch.check import check
from dashboard.dispatch.claims import Taker
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.outcomes import Judge, Result
from dashboard.dispatch.polling import Poll, poll
from dashboard.dispatch.repair.round import Tally
from dashboard.dispatch.states import Channel, NextStep, State
from dashboard.providers import registry
from dashboard.providers.base import Key, Sms
from dashboard.providers.sandbox_sms import account_of
from dashboard.providers.sandbox_sms_route import sms_stand_in
from dashboard.providers.twilio import Account, TwilioProvider
from dashboard.providers.twilio_stand_in import StandInServer
from dashboard.settings import Settings
from tests.factories import make_dispatch

SECRET = "a secret key"


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandInServer]:
    server = sms_stand_in(tmp_path, SECRET, pace_seconds=0.02)
    yield server
    server.shutdown()
    server.server_close()
    server.stand_in.poster.stop()


@pytest.fixture
def provider(stand_in: StandInServer) -> Iterator[TwilioProvider]:
    sid, token = account_of(SECRET)
    account = Account(sid, token, sender="+12025550199", timeouts=(1.0, 1.0))
    made = TwilioProvider(account, name="twilio")
    made.api_url = lambda: f"http://127.0.0.1:{stand_in.port}"
    yield made
    made.close()


def send(
    session: Session, settings: Settings, provider: TwilioProvider, recipient: str
) -> Dispatch:
    """Send one SMS as a worker does, and record what the provider answered."""
    row = make_dispatch(session, channel=Channel.SMS, recipient=recipient, text="Doors open")
    session.commit()
    taker = Taker("w-1", "default", {Channel.SMS: "twilio"}, own=[row.id], siblings=False)
    [claim] = claims.claim(session, taker, 1)
    session.commit()
    claims.mark(session, [claim])
    session.commit()
    outcome = provider.send(Sms(recipient, "Doors open"), Key(str(row.id), 1, "x"))
    judge = Judge(settings, "worker:w-1", provider.capabilities)
    result = Result(row.id, claim.attempt_id, 1, "twilio", outcome, channel=Channel.SMS)
    outcomes.record(session, [result], judge)
    session.commit()
    return row


def run(session: Session, settings: Settings, provider: TwilioProvider) -> Tally:
    tally = Tally()
    poll(session, Poll(settings, provider, tally, lambda _seconds: None))
    session.expire_all()
    return tally


def test_what_awaits_is_polled_to_its_end(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    rows = [send(session, settings, provider, f"+120255501{n:02}") for n in (40, 41, 9, 0)]
    time.sleep(0.3)
    run(session, settings, provider)
    states = [session.get(Dispatch, row.id).state for row in rows]
    assert states == [State.SUCCEEDED, State.SUCCEEDED, State.ERRORED, State.AWAITING]
    assert session.get(Dispatch, rows[3].id).next_poll_at is not None
    assert run(session, settings, provider).found == 0


def test_only_the_half_window_is_polled_where_webhooks_come(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    row = send(session, settings, provider, "+12025550140")
    time.sleep(0.2)
    hooked = settings.model_copy(update={"twilio_webhook_url": "https://x.example/hook"})
    assert run(session, hooked, provider).found == 0
    _age(session, row, minutes=61)
    run(session, hooked, provider)
    assert session.get(Dispatch, row.id).state is State.SUCCEEDED


def _age(session: Session, row: Dispatch, *, minutes: int) -> None:
    session.execute(
        text(
            "UPDATE dispatch SET finished_at = finished_at - make_interval(mins => :minutes),"
            " next_poll_at = NULL WHERE id = :id"
        ),
        {"id": row.id, "minutes": minutes},
    )
    session.commit()


def test_a_silent_one_is_timed_out_after_a_last_fetch(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    row = send(session, settings, provider, "+12025550100")
    _age(session, row, minutes=121)
    run(session, settings, provider)
    assert session.get(Dispatch, row.id).state is State.UNCONFIRMED


def test_a_provider_that_cannot_answer_ends_the_run_and_loses_nothing(
    app: Flask,
    session: scoped_session[Session],
    settings: Settings,
    provider: TwilioProvider,
    stand_in: StandInServer,
) -> None:
    rows = [send(session, settings, provider, f"+120255501{n}") for n in (40, 41)]
    session.execute(update(Dispatch).values(provider_message_id="SM" + "0" * 32))
    session.commit()
    tally = run(session, settings, provider)
    assert (tally.found, tally.skipped) == (1, 1)
    assert {session.get(Dispatch, row.id).state for row in rows} == {State.AWAITING}


def test_a_message_that_was_accepted_without_an_answer_is_found(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    row = send(session, settings, provider, "+15005550040")
    session.expire_all()
    doubtful = session.get(Dispatch, row.id)
    assert (doubtful.state, doubtful.next_step) == (State.DELAYED, NextStep.LOOK_UP)
    _due_now(session)
    run(session, settings, provider)
    found = session.get(Dispatch, row.id)
    assert found.state in (State.AWAITING, State.SUCCEEDED)
    assert session.scalars(select(Attempt)).one().provider_message_id.startswith("SM")


def _due_now(session: Session) -> None:
    session.execute(text("UPDATE dispatch SET due_at = clock_timestamp()"))
    session.commit()


def test_what_the_provider_twice_does_not_have_is_sent_again(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    row = send(session, settings, provider, "+15005550050")
    for wanted in (NextStep.LOOK_UP, NextStep.SEND):
        _due_now(session)
        run(session, settings, provider)
        again = session.get(Dispatch, row.id)
        assert (again.state, again.next_step) == (State.DELAYED, wanted)
    assert not again.maybe_sent


def test_a_look_up_that_cannot_say_is_asked_again_for_two_hours(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    row = send(session, settings, provider, "+15005550050")
    provider.api_url = lambda: "http://127.0.0.1:9"  # nobody listens on the discard port
    for _ in range(3):
        _due_now(session)
        run(session, settings, provider)
        assert session.get(Dispatch, row.id).state is State.DELAYED
    session.execute(text("UPDATE attempt SET claimed_at = claimed_at - interval '2 hours'"))
    _due_now(session)
    run(session, settings, provider)
    assert session.get(Dispatch, row.id).state is State.UNCONFIRMED


def test_a_person_checks_one_dispatch_at_once(
    app: Flask,
    session: scoped_session[Session],
    settings: Settings,
    provider: TwilioProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(registry.SMS_ROUTES, "twilio", lambda _settings, _argument: provider)
    registry.close_all()
    row = send(session, settings, provider, "+12025550140")
    time.sleep(0.2)
    said = check(session, row.id, access_of_command())
    registry.close_all()
    session.expire_all()
    assert said == "The provider says: delivered."
    assert session.get(Dispatch, row.id).state is State.SUCCEEDED


def test_an_unknown_outcome_of_an_sms_is_looked_up_not_sent_again(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    row = send(session, settings, provider, "+15005550053")
    session.expire_all()
    assert session.get(Dispatch, row.id).next_step is NextStep.LOOK_UP
