"""What a worker's outcome makes of its dispatch, on the real database."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.outcomes import Judge, Result, record
from dashboard.dispatch.states import Failure, Hold, NextStep, State
from dashboard.providers.base import Capabilities, Outcome, OutcomeKind
from tests.factories import make_attempt, make_dispatch, make_source

K, E = OutcomeKind, Evidence


def make_sending(session, **values) -> tuple[Dispatch, Attempt]:
    row = make_dispatch(session, state=State.SENDING, **values)
    attempt = make_attempt(session, row, evidence=int(E.HANDED_OVER))
    session.commit()
    return row, attempt


def tell(session, settings, attempt, outcome, *, failure=Failure.NONE, **abilities) -> Dispatch:
    result = Result(
        attempt.dispatch_id, attempt.id, attempt.number, attempt.route, outcome, failure
    )
    record(session, [result], Judge(settings, "worker:w-1", Capabilities(**abilities)))
    session.commit()
    session.expire_all()
    return session.get(Dispatch, attempt.dispatch_id)


@pytest.mark.parametrize(
    ("outcome", "state", "failure", "evidence", "maybe_sent"),
    [
        (Outcome(K.ACCEPTED, report_expected=True), State.AWAITING, "", E.ACCEPTED, False),
        (Outcome(K.ACCEPTED), State.SENT, "", E.ACCEPTED, False),
        (Outcome(K.TRANSIENT, detail="451"), State.DELAYED, "", E.ABSENT, False),
        (Outcome(K.PERMANENT, detail="550"), State.ERRORED, "refused", E.ABSENT, False),
        (Outcome(K.CONFIG, detail="535"), State.DELAYED, "", E.ABSENT, False),
        (Outcome(K.UNKNOWN, detail="timed out"), State.DELAYED, "", E.UNKNOWN, True),
    ],
)
def test_each_outcome_has_its_next_step(
    session, settings, outcome, state, failure, evidence, maybe_sent
) -> None:
    _, attempt = make_sending(session)
    row = tell(session, settings, attempt, outcome)
    assert (row.state, row.failure.value, row.maybe_sent) == (state, failure, maybe_sent)
    assert (attempt.outcome, attempt.evidence) == (outcome.kind, evidence)
    assert attempt.finished_at is not None
    assert row.error == outcome.detail


def test_a_transient_failure_waits_on_the_ladder_and_costs_a_try(session, settings) -> None:
    _, attempt = make_sending(session, tries=2)
    row = tell(session, settings, attempt, Outcome(K.TRANSIENT))
    assert row.tries == 3
    wait = (row.due_at - row.updated_at).total_seconds()
    assert 64 * 0.8 <= wait <= 64 * 1.2


def test_the_twelfth_transient_failure_is_the_last(session, settings) -> None:
    _, attempt = make_sending(session, tries=11)
    row = tell(session, settings, attempt, Outcome(K.TRANSIENT, detail="451 later"))
    assert (row.state, row.failure) == (State.ERRORED, Failure.EXHAUSTED)


def test_a_route_that_refuses_us_holds_the_row_and_costs_no_try(session, settings) -> None:
    _, attempt = make_sending(session, tries=11)
    row = tell(session, settings, attempt, Outcome(K.CONFIG, detail="535"))
    assert (row.hold, row.tries, row.failure) == (Hold.ROUTE, 11, Failure.NONE)


def test_a_fault_of_our_own_can_be_tried_again(session, settings) -> None:
    _, attempt = make_sending(session)
    row = tell(session, settings, attempt, Outcome(K.PERMANENT), failure=Failure.BUG)
    assert (row.failure, row.permanent) == (Failure.BUG, False)


def test_an_unknown_outcome_is_held_where_its_source_wants_that(session, settings) -> None:
    _, attempt = make_sending(session, source=make_source(session, unknown_outcome_email="hold"))
    assert tell(session, settings, attempt, Outcome(K.UNKNOWN)).state is State.UNCONFIRMED


def test_an_unknown_outcome_is_looked_up_where_that_can_be_done(session, settings) -> None:
    _, attempt = make_sending(session, tries=5)
    row = tell(session, settings, attempt, Outcome(K.UNKNOWN), can_look_up=True)
    assert (row.state, row.next_step, row.tries) == (State.DELAYED, NextStep.LOOK_UP, 5)
    assert row.due_at - row.updated_at == timedelta(seconds=30)


def test_a_late_outcome_is_stored_on_its_own_attempt_and_moves_nothing_else(
    session, settings
) -> None:
    row, first = make_sending(session)
    second = make_attempt(session, row)
    session.commit()
    version = row.version
    row = tell(session, settings, first, Outcome(K.PERMANENT, detail="550"))
    assert (row.state, row.version, row.error) == (State.SENDING, version, "")
    assert (first.outcome, second.outcome) == (K.PERMANENT, None)


def test_a_late_acceptance_settles_when_the_open_attempt_ends(session, settings) -> None:
    row, first = make_sending(session)
    second = make_attempt(session, row)
    session.commit()
    row = tell(session, settings, first, Outcome(K.ACCEPTED, report_expected=True))
    assert (row.state, row.proven) == (State.SENDING, True)
    row = tell(session, settings, second, Outcome(K.PERMANENT, detail="550"))
    assert row.state is State.AWAITING


@pytest.mark.parametrize("kind", [K.TRANSIENT, K.PERMANENT, K.CONFIG, K.UNKNOWN])
def test_what_failed_leaves_no_text_and_no_hold_where_another_attempt_was_accepted(
    session, settings, kind
) -> None:
    row, first = make_sending(session, error="451 earlier")
    second = make_attempt(session, row)
    session.commit()
    tell(session, settings, first, Outcome(K.ACCEPTED, report_expected=True))
    row = tell(session, settings, second, Outcome(kind, detail="the second one failed"))
    assert (row.state, row.error, row.hold) == (State.AWAITING, "", Hold.NONE)
    assert second.detail == "the second one failed"


def test_two_outcomes_of_one_dispatch_in_one_wave_are_both_kept(session, settings) -> None:
    row, first = make_sending(session)
    second = make_attempt(session, row)
    session.commit()
    results = [
        Result(row.id, one.id, one.number, one.route, outcome)
        for one, outcome in ((first, Outcome(K.ACCEPTED)), (second, Outcome(K.TRANSIENT)))
    ]
    record(session, results, Judge(settings, "worker:w-1", Capabilities()))
    session.commit()
    session.expire_all()
    outcomes = session.scalars(select(Attempt.outcome).order_by(Attempt.number)).all()
    assert outcomes == [K.ACCEPTED, K.TRANSIENT]
    assert session.get(Dispatch, row.id).state is State.SENT
