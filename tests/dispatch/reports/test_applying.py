"""Reports in every order, number and shape: the dispatch ends where the truth is."""

import itertools
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from flask import Flask
from sqlalchemy import Engine, event, func, select, text
from sqlalchemy.orm import Session, scoped_session

from dashboard.dispatch import claims, outcomes
from dashboard.dispatch.claims import Claim, Taker
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.outcomes import Judge, Result
from dashboard.dispatch.reports.applying import match_waiting, receive
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.states import Channel, State
from dashboard.providers.base import Capabilities, Event, Outcome, OutcomeKind, Report
from dashboard.settings import Settings
from tests.factories import make_attempt, make_dispatch

ROUTE = "twilio"


@dataclass
class Story:
    """One dispatch that a worker sends while reports come in."""

    session: Session
    settings: Settings
    channel: Channel
    sid: str
    claim: Claim

    @classmethod
    def begin(cls, session: Session, settings: Settings, channel: Channel) -> "Story":
        row = make_dispatch(session, channel=channel, recipient="+12025550143")
        session.commit()
        taker = Taker("w-1", "default", {channel: ROUTE}, own=[row.id], siblings=False)
        [claim] = claims.claim(session, taker, 1)
        session.commit()
        assert claims.mark(session, [claim]) == {claim.attempt_id}
        session.commit()
        return cls(session, settings, channel, f"SM{uuid.uuid4().hex}", claim)

    def record(self) -> None:
        """The worker stores what the provider answered."""
        outcome = Outcome(OutcomeKind.ACCEPTED, provider_message_id=self.sid, report_expected=True)
        result = Result(self.claim.dispatch.id, self.claim.attempt_id, 1, ROUTE, outcome)
        judge = Judge(self.settings, "worker:w-1", Capabilities(gives_reports=True))
        outcomes.record(self.session, [result], judge)
        self.session.commit()

    def report(self, what: Event, *, by_key: bool, permanent: bool = True, code: str = "") -> None:
        key = f"{self.claim.dispatch.id}.1" if by_key else ""
        sid = self.sid
        receive(
            self.session,
            [
                Report(
                    ROUTE,
                    what,
                    sid,
                    key=key,
                    permanent=permanent and what is Event.FAILED,
                    code=code,
                    reason="undelivered" if what is Event.FAILED else "",
                )
            ],
        )

    @property
    def row(self) -> Dispatch:
        self.session.expire_all()
        return self.session.get(Dispatch, self.claim.dispatch.id)


def effective_order(events: Sequence[Event], stored_at: int, *, by_key: bool) -> list[Event]:
    """By id alone nothing matches before the worker stored it: those come when matched again."""
    if by_key:
        return list(events)
    return [*events[stored_at:], *events[:stored_at]]


def expected_sms(events: Sequence[Event]) -> State:
    for one in events:
        if one is Event.DELIVERED:
            return State.SUCCEEDED
        if one is Event.FAILED:
            return State.ERRORED
    return State.AWAITING


SMS_EVENTS = (Event.IN_FLIGHT, Event.DELIVERED, Event.FAILED)


def test_sms_reports_in_every_order_around_the_workers_own_record(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    cases = itertools.product(itertools.permutations(SMS_EVENTS), range(4), (1, 3), (False, True))
    for events, stored_at, times, by_key in cases:
        story = Story.begin(session, settings, Channel.SMS)
        for position in range(len(events) + 1):
            if position == stored_at:
                story.record()
            if position < len(events):
                for _ in range(times):
                    story.report(events[position], by_key=by_key)
        match_waiting(session)
        wanted = expected_sms(effective_order(events, stored_at, by_key=by_key))
        context = (events, stored_at, times, by_key)
        assert story.row.state is wanted, context
        stored = session.scalars(
            select(StoredReport).where(StoredReport.dispatch_id == story.row.id)
        ).all()
        assert len(stored) == 3, context


EMAIL_EVENTS = (
    Event.IN_FLIGHT,
    Event.DEFERRED,
    Event.DELIVERED,
    Event.FAILED,
)


@pytest.mark.parametrize("permanent", [True, False])
def test_email_reports_end_in_the_same_state_in_every_order(
    app: Flask, session: scoped_session[Session], settings: Settings, permanent: bool
) -> None:
    for size in range(1, len(EMAIL_EVENTS) + 1):
        for subset in itertools.combinations(EMAIL_EVENTS, size):
            if Event.FAILED in subset and permanent:
                wanted = State.ERRORED
            elif Event.DELIVERED in subset:
                wanted = State.SUCCEEDED
            elif Event.FAILED in subset:
                wanted = State.ERRORED
            else:
                wanted = State.AWAITING
            for events in itertools.permutations(subset):
                for stored_at in (0, len(events)):
                    story = Story.begin(session, settings, Channel.EMAIL)
                    if stored_at == 0:
                        story.record()
                    for one in events:
                        story.report(one, by_key=True, permanent=permanent)
                    if stored_at:
                        story.record()
                    assert story.row.state is wanted, (events, stored_at, permanent)


def test_a_repeat_changes_nothing_not_even_updated_at(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    story = Story.begin(session, settings, Channel.SMS)
    story.record()
    story.report(Event.DELIVERED, by_key=False)
    before = (story.row.updated_at, story.row.version)
    for _ in range(3):
        story.report(Event.DELIVERED, by_key=False)
    assert (story.row.updated_at, story.row.version) == before
    lines = session.scalar(
        select(func.count()).where(
            Transition.dispatch_id == story.row.id, Transition.state_to == "succeeded"
        )
    )
    assert lines == 1


def test_a_report_wins_over_the_workers_later_record(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    story = Story.begin(session, settings, Channel.SMS)
    story.report(Event.FAILED, by_key=True, code="30005")
    assert story.row.state is State.ERRORED
    story.record()
    assert story.row.state is State.ERRORED
    assert story.row.error == "undelivered"
    assert story.row.provider_message_id == story.sid


def test_a_report_waits_under_a_second_for_a_row_that_somebody_holds(
    app: Flask, session: scoped_session[Session], settings: Settings, database: Engine
) -> None:
    story = Story.begin(session, settings, Channel.SMS)
    story.record()
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with database.begin() as connection:
            connection.execute(
                text("SELECT 1 FROM dispatch WHERE id = :id FOR UPDATE"),
                {"id": story.claim.dispatch.id},
            )
            held.set()
            let_go.wait(10)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(5)
    started = time.monotonic()
    story.report(Event.DELIVERED, by_key=False)
    took = time.monotonic() - started
    let_go.set()
    holder.join()
    assert took < 1
    assert story.row.state is State.AWAITING
    match_waiting(session)
    assert story.row.state is State.SUCCEEDED


def test_a_late_failure_of_attempt_1_does_not_touch_attempt_2(
    app: Flask, session: scoped_session[Session]
) -> None:
    row = make_dispatch(session, channel=Channel.EMAIL, state=State.SENDING)
    make_attempt(
        session,
        row,
        route=ROUTE,
        provider_message_id="one",
        evidence=int(Evidence.UNKNOWN),
        finished_at=func.now(),
    )
    make_attempt(session, row, route=ROUTE, evidence=int(Evidence.HANDED_OVER))
    session.commit()
    receive(session, [Report(ROUTE, Event.FAILED, "one", permanent=True)])
    session.expire_all()
    assert session.get(Dispatch, row.id).state is State.SENDING


def test_a_report_of_another_row_changes_neither(
    app: Flask, session: scoped_session[Session]
) -> None:
    mine = make_dispatch(session, state=State.AWAITING)
    make_attempt(session, mine, route=ROUTE, provider_message_id="mine", evidence=4)
    session.commit()
    receive(session, [Report(ROUTE, Event.DELIVERED, "foreign", key=f"{mine.id}.1")])
    session.expire_all()
    assert session.get(Dispatch, mine.id).state is State.AWAITING
    report = session.scalars(select(StoredReport)).one()
    assert report.outcome is ReportOutcome.IGNORED
    assert "another id" in report.note


def test_a_report_without_id_and_key_matches_nothing(
    app: Flask, session: scoped_session[Session]
) -> None:
    row = make_dispatch(session, state=State.AWAITING)
    make_attempt(session, row, route=ROUTE, provider_message_id="", evidence=4)
    session.commit()
    receive(session, [Report(ROUTE, Event.DELIVERED, "", recipient=row.recipient)])
    assert session.scalars(select(StoredReport)).one().outcome is ReportOutcome.UNMATCHED


@pytest.mark.parametrize(
    "key",
    ["-" * 36, "-" * 36 + ".1", "0" * 36, "{id}.", "{id}.٣", "{id}.-1", "{id}.1\n", "x{id}.1"],
)
def test_a_key_of_another_form_matches_nothing(
    app: Flask, session: scoped_session[Session], key: str
) -> None:
    row = make_dispatch(session, state=State.AWAITING)
    make_attempt(session, row, route=ROUTE, provider_message_id="", evidence=4)
    session.commit()
    report = Report(ROUTE, Event.DELIVERED, "one", key=key.format(id=row.id))
    receive(session, [report])
    assert session.scalars(select(StoredReport)).one().outcome is ReportOutcome.UNMATCHED


def test_a_report_about_a_copys_recipient_moves_nothing(
    app: Flask, session: scoped_session[Session]
) -> None:
    row = make_dispatch(session, state=State.AWAITING)
    make_attempt(session, row, route=ROUTE, provider_message_id="one", evidence=4)
    session.commit()
    receive(session, [Report(ROUTE, Event.FAILED, "one", recipient="grace@example.com")])
    session.expire_all()
    assert session.get(Dispatch, row.id).state is State.AWAITING


def test_contradicting_reports_at_once_leave_one_state_and_both_in_the_history(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    for _ in range(10):
        story = Story.begin(session, settings, Channel.SMS)
        story.record()

        def post(what: Event, story: Story = story) -> None:
            with app.app_context():
                story.report(what, by_key=False)
                session.remove()

        threads = [
            threading.Thread(target=post, args=(what,)) for what in (Event.DELIVERED, Event.FAILED)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        match_waiting(session)
        reports = session.scalars(
            select(StoredReport).where(StoredReport.dispatch_id == story.claim.dispatch.id)
        ).all()
        assert {one.outcome for one in reports} == {
            ReportOutcome.APPLIED,
            ReportOutcome.CONFLICT,
        }
        first = next(one for one in reports if one.outcome is ReportOutcome.APPLIED)
        wanted = State.SUCCEEDED if first.event == "delivered" else State.ERRORED
        assert story.row.state is wanted


def test_a_report_that_changes_the_state_needs_six_statements(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    story = Story.begin(session, settings, Channel.SMS)
    story.record()
    statements: list[str] = []

    def note(_c: object, _u: object, statement: str, *_rest: object) -> None:
        statements.append(statement)

    session.expunge_all()
    event.listen(Engine, "before_cursor_execute", note)
    try:
        story.report(Event.DELIVERED, by_key=False)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert story.row.state is State.SUCCEEDED
    assert len(statements) <= 6, statements


def test_the_attempt_keeps_what_is_known_of_it(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    story = Story.begin(session, settings, Channel.EMAIL)
    story.record()
    story.report(Event.DELIVERED, by_key=False)
    attempt = session.scalars(
        select(Attempt).where(Attempt.dispatch_id == story.claim.dispatch.id)
    ).one()
    assert attempt.evidence == Evidence.DELIVERED
    assert story.row.delivered_attempt == 1
