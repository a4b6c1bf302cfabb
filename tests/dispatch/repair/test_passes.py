"""The reconciler on real rows and a real Redis: where it must act, and where it must not."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session, scoped_session

from dashboard.database import database_now, new_id
from dashboard.dispatch import publishing
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.repair.passes import reconcile
from dashboard.dispatch.repair.round import Round, Tally
from dashboard.dispatch.states import Channel, Failure, Hold, State
from dashboard.providers.base import Capabilities, OutcomeKind
from dashboard.queueing.connection import redis_connection
from dashboard.queueing.publish import publish, waiting_jobs
from dashboard.settings import Settings
from dashboard.workers import liveness
from dashboard.workers.liveness import Introduction
from dashboard.workers.models import Worker
from tests.factories import make_attempt, make_dispatch, make_source

Rows = scoped_session[Session]
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)


def run(session: Rows, settings: Settings, **abilities: bool) -> Tally:
    this = Round(settings, waiting_jobs, lambda _channel, _route: Capabilities(**abilities))
    return reconcile(session, this)


def make_worker(session: Rows, name: str = "w-1", *, seen: timedelta = timedelta(0)) -> None:
    liveness.register(session, Introduction(name, ["default"]))
    last_sign = database_now(session) - seen
    session.execute(update(Worker).where(Worker.name == name).values(seen_at=last_sign))


def make_sending(
    session: Rows, *, ago: timedelta = MINUTE, handed_over: bool = False, **values: object
) -> Dispatch:
    """Return a dispatch that worker w-1 claimed a while ago."""
    then = database_now(session) - ago
    row = make_dispatch(
        session, state=State.SENDING, worker="w-1", started_at=then, published_at=None, **values
    )
    make_attempt(
        session,
        row,
        claimed_at=then,
        handed_over_at=then if handed_over else None,
        evidence=int(Evidence.HANDED_OVER if handed_over else Evidence.NONE),
    )
    session.commit()
    return row


def make_waiting(session: Rows, *, ago: timedelta, **values: object) -> Dispatch:
    """Return a dispatch that was due and published a while ago."""
    then = database_now(session) - ago
    given = {"due_at": then, "published_at": then, **values}
    row = make_dispatch(session, **given)
    session.commit()
    return row


def make_claim_of_another(session: Rows, *, published: timedelta, claimed: timedelta) -> None:
    """Let a worker have taken another dispatch of the queue."""
    now = database_now(session)
    other = make_dispatch(session, state=State.SENT)
    make_attempt(
        session,
        other,
        published_at=now - published,
        claimed_at=now - claimed,
        finished_at=now - claimed,
    )
    session.commit()


def again(session: Rows, row: Dispatch) -> Dispatch:
    session.expire_all()
    return session.get(Dispatch, row.id)


def last_line(session: Rows, row: Dispatch) -> Transition:
    lines = (
        select(Transition).where(Transition.dispatch_id == row.id).order_by(Transition.id.desc())
    )
    return session.scalars(lines).first()


# Workers that are gone


def test_a_worker_that_is_gone_before_the_hand_over_leaves_it_stalled(session, settings) -> None:
    make_worker(session, seen=MINUTE)
    row = make_sending(session)
    assert run(session, settings).repaired == 1
    row = again(session, row)
    assert (row.state, row.losses, row.maybe_sent) == (State.STALLED, 1, False)
    attempt = session.scalars(select(Attempt)).one()
    assert (attempt.lost, attempt.finished_at is not None) == (True, True)
    assert last_line(session, row).note == "Worker w-1 was lost before the hand-over."


def test_a_worker_that_is_alive_keeps_what_it_holds(session, settings) -> None:
    make_worker(session, seen=10 * SECOND)
    row = make_sending(session)
    assert run(session, settings).repaired == 0
    assert again(session, row).state is State.SENDING


def test_a_claim_of_this_moment_has_its_grace_although_the_stamps_fail(session, settings) -> None:
    make_worker(session, seen=MINUTE)
    row = make_sending(session, ago=5 * SECOND)
    run(session, settings)
    assert again(session, row).state is State.SENDING


def test_a_worker_that_hangs_past_every_deadline_loses_what_it_holds(session, settings) -> None:
    make_worker(session)
    row = make_sending(session, ago=10 * MINUTE)
    run(session, settings)
    assert again(session, row).state is State.STALLED


@pytest.mark.parametrize("handed_over", [False, True])
def test_a_worker_that_never_registered_is_judged_by_the_deadline_alone(
    session, settings, handed_over
) -> None:
    row = make_sending(session, ago=2 * MINUTE, handed_over=handed_over)
    assert run(session, settings).repaired == 0
    assert again(session, row).state is State.SENDING
    late = make_sending(session, ago=10 * MINUTE, handed_over=handed_over)
    assert run(session, settings).repaired == 1
    assert again(session, late).state is (State.DELAYED if handed_over else State.STALLED)
    assert again(session, row).state is State.SENDING


def test_a_third_loss_before_the_hand_over_is_not_sent_again(session, settings) -> None:
    make_worker(session, seen=MINUTE)
    row = make_sending(session, losses=2)
    run(session, settings)
    row = again(session, row)
    assert (row.state, row.failure, row.losses) == (State.ERRORED, Failure.LOST, 3)
    assert "Killed its worker 3 times" in row.error


@pytest.mark.parametrize(
    ("policy", "state"), [("resend", State.DELAYED), ("hold", State.UNCONFIRMED)]
)
def test_a_loss_after_the_hand_over_follows_the_policy(session, settings, policy, state) -> None:
    make_worker(session, seen=MINUTE)
    source = make_source(session, unknown_outcome_email=policy)
    row = make_sending(session, handed_over=True, source=source)
    run(session, settings)
    row = again(session, row)
    assert (row.state, row.maybe_sent) == (state, True)
    assert session.scalars(select(Attempt.outcome)).one() is OutcomeKind.UNKNOWN


def test_a_noted_cancel_wins_when_the_worker_is_lost(session, settings) -> None:
    make_worker(session, seen=MINUTE)
    row = make_sending(session, cancel_noted_by="user:operator")
    run(session, settings)
    row = again(session, row)
    assert (row.state, row.cancel_noted_by) == (State.CANCELLED, "")


# Lost jobs


def test_emptied_redis_makes_every_published_row_be_published_again(session, settings) -> None:
    row = make_waiting(session, ago=MINUTE)
    publish("default", [row.id], settings)
    redis_connection(settings).flushall()
    run(session, settings)
    assert again(session, row).published_at is None
    assert publishing.release(session, settings) == 1
    assert waiting_jobs("default") == 1


def test_a_job_that_waits_in_redis_is_not_lost(session, settings) -> None:
    row = make_waiting(session, ago=MINUTE)
    publish("default", [row.id], settings)
    run(session, settings)
    assert again(session, row).published_at is not None


def test_a_job_that_others_passed_is_lost_although_redis_has_jobs(session, settings) -> None:
    row = make_waiting(session, ago=MINUTE)
    publish("default", [new_id()], settings)
    make_claim_of_another(session, published=10 * SECOND, claimed=5 * SECOND)
    run(session, settings)
    assert again(session, row).published_at is None


# Stalled, given up, expired


def test_a_queue_without_claims_is_stalled(session, settings) -> None:
    row = make_waiting(session, ago=11 * MINUTE)
    run(session, settings)
    row = again(session, row)
    assert (row.state, row.stalls, row.published_at) == (State.STALLED, 0, None)


def test_a_backlog_under_working_workers_is_not_stalled(session, settings) -> None:
    row = make_waiting(session, ago=11 * MINUTE)
    publish("default", [row.id], settings)
    make_claim_of_another(session, published=20 * MINUTE, claimed=5 * SECOND)
    run(session, settings)
    assert again(session, row).state is State.QUEUED


def test_an_overtaken_one_is_given_up_after_its_retries(session, settings) -> None:
    row = make_waiting(session, ago=11 * MINUTE, state=State.STALLED, stalls=2)
    make_claim_of_another(session, published=MINUTE, claimed=5 * SECOND)
    run(session, settings)
    row = again(session, row)
    assert (row.state, row.failure) == (State.ERRORED, Failure.LOST)
    assert "No worker completed this" in row.error


def test_without_any_worker_nothing_is_given_up(session, settings) -> None:
    row = make_waiting(session, ago=11 * MINUTE, state=State.STALLED, stalls=9)
    run(session, settings)
    assert again(session, row).state is State.STALLED


def test_stalling_again_is_counted_on_the_line_that_is_there(session, settings) -> None:
    row = make_waiting(session, ago=11 * MINUTE, state=State.STALLED)
    before = session.query(Transition).count()
    run(session, settings)
    assert session.query(Transition).count() == before
    assert last_line(session, row).repeats == 1


def test_what_waits_beyond_its_end_expires_even_when_it_is_held(session, settings) -> None:
    end = database_now(session) - SECOND
    row = make_waiting(session, ago=MINUTE, expires_at=end, hold=Hold.ROUTE)
    run(session, settings)
    row = again(session, row)
    assert (row.state, row.failure) == (State.ERRORED, Failure.EXPIRED)


def test_what_waits_for_longer_than_the_maximum_expires(session, settings) -> None:
    old = make_waiting(session, ago=73 * HOUR)
    young = make_waiting(session, ago=71 * HOUR)
    run(session, settings)
    assert again(session, old).failure is Failure.EXPIRED
    assert again(session, young).state is State.STALLED


def test_held_and_scheduled_and_replaced_rows_are_left_alone(session, settings) -> None:
    later = database_now(session) + HOUR
    held = make_waiting(session, ago=11 * MINUTE, hold=Hold.ROUTE)
    scheduled = make_waiting(session, ago=11 * MINUTE, due_at=later)
    replaced = make_waiting(session, ago=11 * MINUTE, replaced_by_id=new_id())
    assert run(session, settings).repaired == 0
    assert {again(session, row).state for row in (held, scheduled, replaced)} == {State.QUEUED}


# Publishing that failed, windows that ended


def test_what_redis_did_not_take_is_queued_again_when_it_answers(session, settings) -> None:
    end = database_now(session) - SECOND
    row = make_waiting(
        session, ago=MINUTE, state=State.ERRORED, failure=Failure.PUBLISH, expires_at=end
    )
    run(session, settings)
    row = again(session, row)
    assert (row.state, row.failure, row.error) == (State.QUEUED, Failure.NONE, "")
    assert row.expires_at == end, "nobody pressed anything: it may still be too late"
    assert last_line(session, row).actor == "reconciler"


def test_what_redis_did_not_take_stays_while_it_does_not_answer(session, settings) -> None:
    row = make_waiting(session, ago=MINUTE, state=State.ERRORED, failure=Failure.PUBLISH)
    away = settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})
    this = Round(
        settings, lambda queue: waiting_jobs(queue, away), lambda _channel, _route: Capabilities()
    )
    reconcile(session, this)
    assert again(session, row).state is State.ERRORED


def test_what_redis_did_not_take_a_day_ago_waits_for_a_person(session, settings) -> None:
    old = database_now(session) - 25 * HOUR
    row = make_waiting(
        session, ago=MINUTE, state=State.ERRORED, failure=Failure.PUBLISH, created_at=old
    )
    other = make_waiting(session, ago=MINUTE, state=State.ERRORED, failure=Failure.REFUSED)
    run(session, settings)
    assert again(session, row).state is again(session, other).state is State.ERRORED


@pytest.mark.parametrize(
    ("channel", "hours", "state"),
    [
        (Channel.SMS, 3, State.UNCONFIRMED),
        (Channel.SMS, 1, State.AWAITING),
        (Channel.EMAIL, 73, State.UNCONFIRMED),
        (Channel.EMAIL, 71, State.AWAITING),
    ],
)
def test_a_report_that_does_not_come_in_its_window(
    session, settings, channel, hours, state
) -> None:
    since = database_now(session) - hours * HOUR
    row = make_dispatch(session, channel=channel, state=State.AWAITING, finished_at=since)
    session.commit()
    run(session, settings)
    assert again(session, row).state is state


def test_a_row_that_somebody_holds_is_skipped_and_seen_next_time(
    session, settings, database
) -> None:
    row = make_waiting(session, ago=11 * MINUTE)
    with Session(database) as other:
        other.execute(select(Dispatch.id).where(Dispatch.id == row.id).with_for_update())
        tally = run(session, settings)
        assert (tally.skipped, tally.repaired) == (1, 0)
    assert run(session, settings).repaired == 1
