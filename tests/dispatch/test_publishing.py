"""Publishing: the outbox in slices, a Redis that is away, and holds that follow the routes."""

from datetime import timedelta

import pytest

from dashboard.database import database_now
from dashboard.dispatch import routes
from dashboard.dispatch.models import Dispatch, RoutePause
from dashboard.dispatch.publishing import (
    fail_publish,
    forget_published,
    keep_holds,
    publish_or_note,
    release,
)
from dashboard.dispatch.states import Failure, Hold, NextStep, State
from dashboard.queueing.publish import waiting_jobs
from tests.factories import make_attempt, make_dispatch

HOUR = timedelta(hours=1)


@pytest.fixture
def away(settings):
    return settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"})


def again(session, row) -> Dispatch:
    session.expire_all()
    return session.get(Dispatch, row.id)


def make_unpublished(session, **values) -> Dispatch:
    row = make_dispatch(session, published_at=None, **values)
    session.commit()
    return row


# Release


def test_release_publishes_what_is_due_once(session, settings) -> None:
    row = make_unpublished(session)
    assert release(session, settings) == 1
    assert release(session, settings) == 0
    assert again(session, row).published_at is not None
    assert waiting_jobs("default") == 1


def test_release_leaves_what_may_not_be_claimed(session, settings) -> None:
    later = database_now(session) + HOUR
    make_unpublished(session, due_at=later)
    make_unpublished(session, hold=Hold.QUIET)
    make_unpublished(session, state=State.DELAYED, next_step=NextStep.LOOK_UP)
    make_unpublished(session, state=State.ERRORED)
    assert release(session, settings) == 0


def test_rows_whose_worker_was_lost_get_jobs_of_their_own(session, settings) -> None:
    for losses in (0, 0, 1, 2):
        make_unpublished(session, losses=losses)
    assert release(session, settings) == 4
    assert waiting_jobs("default") == 3, "two healthy ones share a job"


def test_what_redis_does_not_take_is_released_later(session, settings, away) -> None:
    row = make_unpublished(session)
    release(session, away)
    row = again(session, row)
    assert (row.state, row.published_at) == (State.QUEUED, None)
    assert release(session, settings) == 1


def test_forgetting_touches_waiting_rows_alone(session) -> None:
    waiting, done = make_dispatch(session), make_dispatch(session, state=State.SENT)
    session.commit()
    assert forget_published(session) == 1
    assert again(session, waiting).published_at is None
    assert again(session, done).published_at is not None


# Publishing that fails


def test_a_request_that_redis_does_not_take_is_errored_and_says_so(session, away) -> None:
    row = make_dispatch(session)
    session.commit()
    assert publish_or_note(session, [("default", [row.id])], away) is False
    row = again(session, row)
    assert (row.state, row.failure, row.published_at) == (State.ERRORED, Failure.PUBLISH, None)
    assert row.error.startswith("Redis did not take it")


def test_a_job_that_did_arrive_is_believed_over_the_publisher(session) -> None:
    row = make_dispatch(session, state=State.SENDING)
    make_attempt(session, row)
    session.commit()
    fail_publish(session, [row.id], "timed out")
    assert again(session, row).state is State.SENDING


def test_a_later_try_that_redis_does_not_take_is_left_to_release(session) -> None:
    row = make_dispatch(session, state=State.QUEUED)
    make_attempt(session, row)
    session.commit()
    fail_publish(session, [row.id], "timed out")
    row = again(session, row)
    assert (row.state, row.published_at) == (State.QUEUED, None)


# Holds that follow the routes


def test_a_paused_route_holds_what_waits_and_an_open_one_lifts_it(session, settings) -> None:
    row = make_dispatch(session)
    routes.pause(session, settings.email_route, "535")
    session.commit()
    keep_holds(session, settings)
    row = again(session, row)
    assert (row.hold, row.published_at) == (Hold.ROUTE, None)
    session.delete(session.get(RoutePause, settings.email_route))
    session.commit()
    assert release(session, settings) == 1
    assert again(session, row).hold is Hold.NONE


def test_a_resumed_route_starts_with_the_oldest_one_that_is_due(session, settings) -> None:
    now = database_now(session)
    old = make_unpublished(session, due_at=now - HOUR, hold=Hold.ROUTE)
    make_unpublished(session, due_at=now - 2 * HOUR, hold=Hold.ROUTE, expires_at=now - HOUR)
    young = make_unpublished(session, due_at=now, hold=Hold.ROUTE)
    routes.pause(session, settings.email_route, "535")
    routes.resume(session, settings.email_route)
    session.commit()
    assert release(session, settings) == 1
    assert session.get(RoutePause, settings.email_route).trial_id == old.id
    assert again(session, young).hold is Hold.ROUTE


def test_a_route_does_not_wait_for_a_trial_that_is_due_tomorrow(session, settings) -> None:
    tomorrow = database_now(session) + 24 * HOUR
    make_unpublished(session, due_at=tomorrow, hold=Hold.ROUTE)
    now = make_unpublished(session)
    routes.pause(session, settings.email_route, "535")
    routes.resume(session, settings.email_route)
    session.commit()
    assert release(session, settings) == 1
    assert again(session, now).published_at is not None
