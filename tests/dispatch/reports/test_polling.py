"""Polling and look-ups against the stand-in, through the real client."""

import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import select, text, update
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.scope import access_of_command
from dashboard.dispatch import claims, outcomes
from dashboard.dispatch.actions.check import check
from dashboard.dispatch.claims import Taker
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.outcomes import Judge, Result
from dashboard.dispatch.repair.round import Tally
from dashboard.dispatch.reports.polling import Poll, poll
from dashboard.dispatch.states import Channel, Hold, NextStep, State
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


def test_a_message_that_the_provider_does_not_know_does_not_hold_up_the_others(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    unknown, known = (send(session, settings, provider, f"+120255501{n}") for n in (40, 41))
    time.sleep(0.2)
    stranger = update(Dispatch).where(Dispatch.id == unknown.id)
    session.execute(stranger.values(provider_message_id="SM" + "0" * 32))
    session.commit()
    tally = run(session, settings, provider)
    assert (tally.found, tally.skipped) == (2, 1)
    assert session.get(Dispatch, known.id).state is State.SUCCEEDED
    put_off = session.get(Dispatch, unknown.id)
    assert put_off.state is State.AWAITING
    assert put_off.next_poll_at is not None
    assert run(session, settings, provider).found == 0


def test_a_provider_that_is_away_ends_the_run_and_loses_nothing(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    rows = [send(session, settings, provider, f"+120255501{n}") for n in range(40, 45)]
    provider.api_url = lambda: "http://127.0.0.1:9"  # nobody listens on the discard port
    tally = run(session, settings, provider)
    assert (tally.found, tally.skipped) == (3, 3)
    assert {session.get(Dispatch, row.id).state for row in rows} == {State.AWAITING}


def send_two_hundred(
    session: Session, settings: Settings, provider: TwilioProvider
) -> list[tuple[uuid.UUID, str]]:
    """Send 200 SMS in two batches; return each with the provider's id."""
    rows = [
        make_dispatch(
            session,
            channel=Channel.SMS,
            recipient=f"+1202555{n:04}",
            text="Doors open",
            queue="bulk",
        )
        for n in range(1000, 1199)
    ]
    rows.append(
        make_dispatch(
            session, channel=Channel.SMS, recipient="+12025550109", text="x", queue="bulk"
        )
    )
    session.commit()
    ids = [row.id for row in rows]
    for start in (0, 100):
        own = ids[start : start + 100]
        taker = Taker("w-1", "bulk", {Channel.SMS: "twilio"}, own=own, siblings=False)
        taken = claims.claim(session, taker, 100)
        session.commit()
        claims.mark(session, taken)
        session.commit()
        judge = Judge(settings, "worker:w-1", provider.capabilities)
        results = [
            Result(
                one.dispatch.id,
                one.attempt_id,
                1,
                "twilio",
                provider.send(
                    Sms(one.dispatch.recipient, "Doors open"), Key(str(one.dispatch.id), 1, "x")
                ),
                channel=Channel.SMS,
            )
            for one in taken
        ]
        outcomes.record(session, results, judge)
        session.commit()
    found = select(Dispatch.id, Dispatch.provider_message_id)
    return [(row.id, row.provider_message_id) for row in session.execute(found)]


def test_200_sms_are_polled_to_their_end_although_the_api_is_busy_for_a_while(
    app: Flask,
    session: scoped_session[Session],
    settings: Settings,
    provider: TwilioProvider,
    stand_in: StandInServer,
) -> None:
    foreign = [
        stand_in.stand_in.create({"To": ["+12025550177"], "Body": ["not ours"]}).sid
        for _ in range(20)
    ]
    sent = send_two_hundred(session, settings, provider)
    assert len({message for _, message in sent}) == 200
    time.sleep(0.3)
    asked: list[str] = []
    fetch = provider.fetch_status
    provider.fetch_status = lambda message: asked.append(message) or fetch(message)
    stand_in.stand_in.busy_for = 3
    tallies = [run(session, settings, provider) for _ in range(5)]
    assert [one.found for one in tallies] == [1, 1, 1, 100, 100]
    assert [one.skipped for one in tallies] == [1, 1, 1, 0, 0]
    assert run(session, settings, provider).found == 0
    states = Counter(session.scalars(select(Dispatch.state)))
    assert states == {State.SUCCEEDED: 199, State.ERRORED: 1}
    assert set(asked) == {message for _, message in sent}
    assert not set(asked) & set(foreign)
    assert stand_in.stand_in.fetches == len(asked) == 203


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


def test_what_is_held_is_not_looked_up(
    app: Flask, session: scoped_session[Session], settings: Settings, provider: TwilioProvider
) -> None:
    row = send(session, settings, provider, "+15005550040")
    session.execute(update(Dispatch).values(hold=Hold.ROUTE))
    _due_now(session)
    assert run(session, settings, provider).found == 0
    session.execute(update(Dispatch).values(hold=Hold.NONE))
    _due_now(session)
    assert run(session, settings, provider).found == 1
    assert session.get(Dispatch, row.id).state in (State.AWAITING, State.SUCCEEDED)


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
