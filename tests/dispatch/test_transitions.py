"""The only writer of a state: locks, history, and what entering a state implies."""

from datetime import timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.database import database_now
from dashboard.dispatch.actions.clearing import clear_for_retry
from dashboard.dispatch.decisions import Verdict
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Dispatch, Transition
from dashboard.dispatch.states import Failure, Hold, NextStep, State, Trigger
from dashboard.dispatch.transitions import Change, lock, move
from tests.factories import make_attempt, make_dispatch


def move_once(session, row, trigger, **values):
    [locked] = lock(session, [row.id])
    decision = move(session, locked, Change(trigger, "test", **values))
    session.flush()
    return decision


def lines_of(session, row) -> list[Transition]:
    query = select(Transition).where(Transition.dispatch_id == row.id).order_by(Transition.id)
    return list(session.scalars(query))


def test_a_move_writes_state_version_and_one_line_and_does_not_commit(session) -> None:
    row = make_dispatch(session)
    session.commit()
    move_once(session, row, Trigger.CANCEL, note="wrong template")
    assert (row.state, row.version, row.published_at) == (State.CANCELLED, 2, None)
    last = lines_of(session, row)[-1]
    assert (last.state_from, last.state_to, last.trigger) == ("queued", "cancelled", "cancel")
    assert (last.actor, last.note) == ("test", "wrong template")
    session.rollback()
    assert session.get(Dispatch, row.id).state is State.QUEUED


@pytest.mark.parametrize("trigger", [Trigger.TIME_OUT, Trigger.RETRY, Trigger.ACCEPT])
def test_what_does_not_move_writes_nothing(session, trigger) -> None:
    row = make_dispatch(session)
    session.commit()
    before = (row.version, row.updated_at, row.published_at)
    assert move_once(session, row, trigger).verdict is not Verdict.MOVED
    assert (row.version, row.updated_at, row.published_at) == before
    assert len(lines_of(session, row)) == 1


def test_an_ignored_claim_makes_the_row_published_again(session) -> None:
    row = make_dispatch(session, hold=Hold.QUIET)
    session.commit()
    move_once(session, row, Trigger.CLAIM)
    assert (row.state, row.published_at) == (State.QUEUED, None)


def test_a_lock_sees_the_attempts_as_they_are_after_the_wait(session, database) -> None:
    row = make_dispatch(session)
    session.commit()
    with Session(database) as other:
        [locked] = lock(other, [row.id])
        assert lock(session, [row.id], skip_locked=True) == []
        make_attempt(other, locked.dispatch)
        other.commit()
    [locked] = lock(session, [row.id])
    assert [one.number for one in locked.attempts] == [1]
    assert locked.dispatch.attempts == 1


def test_news_is_stored_on_its_own_attempt_and_summed_up_on_the_row(session) -> None:
    row = make_dispatch(session, state=State.SENDING)
    first, second = make_attempt(session, row), make_attempt(session, row)
    move_once(session, row, Trigger.DEFER, about=1, evidence=Evidence.UNKNOWN)
    assert (first.evidence, second.evidence) == (Evidence.UNKNOWN, Evidence.NONE)
    assert (row.state, row.maybe_sent, row.proven) == (State.SENDING, True, False)
    move_once(session, row, Trigger.REPORT_DELIVERED, about=1, evidence=Evidence.DELIVERED)
    assert (row.state, row.maybe_sent, row.proven) == (State.SUCCEEDED, False, True)
    assert row.delivered_attempt == 1


def test_the_same_report_again_changes_nothing(session) -> None:
    row = make_dispatch(session, state=State.AWAITING)
    make_attempt(session, row, evidence=int(Evidence.ACCEPTED))
    report = {"about": 1, "evidence": Evidence.DELIVERED}
    move_once(session, row, Trigger.REPORT_DELIVERED, **report)
    before = (row.version, row.updated_at, len(lines_of(session, row)))
    assert move_once(session, row, Trigger.REPORT_DELIVERED, **report).verdict is Verdict.IGNORED
    assert (row.version, row.updated_at, len(lines_of(session, row))) == before


def test_leaving_sending_clears_a_noted_cancel(session) -> None:
    row = make_dispatch(session, state=State.SENDING, cancel_noted_by="user:operator")
    make_attempt(session, row)
    move_once(session, row, Trigger.COMPLETE, about=1, evidence=Evidence.ACCEPTED)
    assert (row.state, row.cancel_noted_by, row.cancel_noted_reason) == (State.AWAITING, "", "")


def test_only_an_errored_row_has_a_failure(session) -> None:
    row = make_dispatch(session)
    move_once(session, row, Trigger.EXPIRE, values={"failure": Failure.EXPIRED})
    assert (row.state, row.failure) == (State.ERRORED, Failure.EXPIRED)
    move_once(session, row, Trigger.CANCEL)
    assert (row.state, row.failure) == (State.CANCELLED, Failure.NONE)


def test_a_retry_clears_what_the_design_names_and_keeps_the_rest(session) -> None:
    row = make_dispatch(
        session,
        state=State.ERRORED,
        error="550",
        failure=Failure.EXHAUSTED,
        tries=12,
        losses=2,
        stalls=2,
        maybe_sent=True,
        hold=Hold.BACKFILL,
    )
    attempt = make_attempt(session, row, evidence=int(Evidence.UNKNOWN))
    session.commit()
    [locked] = lock(session, [row.id])
    move(session, locked, Change(Trigger.RETRY, "user:operator", values=clear_for_retry(locked)))
    assert (row.state, row.error, row.failure) == (State.QUEUED, "", Failure.NONE)
    assert (row.tries, row.losses, row.stalls, row.hold) == (0, 0, 0, Hold.NONE)
    assert row.due_at <= database_now(session)
    assert (row.attempts_before_retry, row.maybe_sent) == (1, True)
    assert attempt.evidence == Evidence.UNKNOWN


def test_a_retry_keeps_the_hold_of_a_route(session) -> None:
    row = make_dispatch(session, state=State.ERRORED, hold=Hold.ROUTE)
    [locked] = lock(session, [row.id])
    assert clear_for_retry(locked)["hold"] is Hold.ROUTE


@pytest.mark.parametrize(("minutes", "kept"), [(-1, False), (5, True)])
def test_a_retry_lifts_an_end_that_has_passed_and_keeps_one_ahead(session, minutes, kept) -> None:
    end = database_now(session) + timedelta(minutes=minutes)
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXPIRED, expires_at=end)
    [locked] = lock(session, [row.id])
    move(session, locked, Change(Trigger.RETRY, "user:operator", values=clear_for_retry(locked)))
    assert row.expires_at == (end if kept else None)
    move_once(session, row, Trigger.CLAIM)
    assert row.state is State.SENDING


def test_every_move_writes_the_next_step(session) -> None:
    row = make_dispatch(session, state=State.DELAYED, next_step=NextStep.LOOK_UP)
    make_attempt(session, row, evidence=int(Evidence.UNKNOWN))
    move_once(session, row, Trigger.LOSE, about=1)
    assert (row.state, row.next_step) == (State.UNCONFIRMED, NextStep.SEND)
