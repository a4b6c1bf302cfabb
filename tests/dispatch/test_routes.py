"""Routes that take nothing: paused, resumed with one, open again when that one went out."""

from datetime import timedelta

import pytest

from dashboard.database import database_now
from dashboard.dispatch import claims, routes
from dashboard.dispatch.claims import Taker
from dashboard.dispatch.models import RoutePause
from dashboard.dispatch.states import Channel, State
from dashboard.providers.base import OutcomeKind
from tests.factories import make_attempt, make_dispatch

SECOND = timedelta(seconds=1)


def paused_route(session) -> RoutePause | None:
    session.flush()
    session.expire_all()
    return session.get(RoutePause, "smtp")


def test_pausing_twice_keeps_the_first_reason(session) -> None:
    assert routes.pause(session, "smtp", "535 wrong password") is True
    assert routes.pause(session, "smtp", "connection refused") is False
    assert paused_route(session).reason == "535 wrong password"


def test_a_failing_trial_pauses_a_resumed_route_again(session) -> None:
    routes.pause(session, "smtp", "535")
    routes.resume(session, "smtp")
    assert routes.pause(session, "smtp", "535 again") is True
    paused = paused_route(session)
    assert (paused.reason, paused.resumed_at, paused.trial_id) == ("535 again", None, None)


def test_resuming_an_open_route_changes_nothing(session) -> None:
    routes.resume(session, "smtp")
    assert paused_route(session) is None


def test_a_resumed_route_takes_nothing_before_its_trial_is_chosen(session) -> None:
    row = make_dispatch(session)
    routes.pause(session, "smtp", "535")
    routes.resume(session, "smtp")
    session.commit()
    taker = Taker("w-1", "default", {Channel.EMAIL: "smtp"}, (row.id,))
    assert claims.claim(session, taker, 16) == []


@pytest.mark.parametrize(
    ("outcome", "is_open"),
    [
        (OutcomeKind.ACCEPTED, True),
        (OutcomeKind.PERMANENT, True),
        (OutcomeKind.TRANSIENT, False),
        (OutcomeKind.UNKNOWN, False),
    ],
)
def test_the_outcome_of_the_trial_decides(session, outcome, is_open) -> None:
    trial = make_dispatch(session, state=State.DELAYED)
    routes.pause(session, "smtp", "535")
    routes.resume(session, "smtp")
    paused = paused_route(session)
    paused.trial_id = trial.id
    now = database_now(session)
    make_attempt(session, trial, claimed_at=now, finished_at=now, outcome=outcome)
    assert routes.conclude_trial(session, paused, now) is is_open
    session.commit()
    paused = paused_route(session)
    assert (paused is None) is is_open
    assert paused is None or paused.trial_id is None, "the next one has its turn"


def test_an_attempt_from_before_the_resumption_proves_nothing(session) -> None:
    trial = make_dispatch(session)
    before = database_now(session) - SECOND
    make_attempt(
        session, trial, claimed_at=before, finished_at=before, outcome=OutcomeKind.ACCEPTED
    )
    routes.pause(session, "smtp", "535")
    routes.resume(session, "smtp")
    paused = paused_route(session)
    paused.trial_id = trial.id
    assert routes.conclude_trial(session, paused, before) is False


def test_a_trial_that_was_cancelled_opens_the_route(session) -> None:
    trial = make_dispatch(session, state=State.CANCELLED)
    routes.pause(session, "smtp", "535")
    routes.resume(session, "smtp")
    paused = paused_route(session)
    paused.trial_id = trial.id
    assert routes.conclude_trial(session, paused, database_now(session)) is True


def test_the_channels_of_a_route(settings) -> None:
    both = settings.model_copy(update={"email_provider": "null", "sms_provider": "null"})
    one = settings.model_copy(update={"email_provider": "smtp", "sms_provider": "null"})
    assert routes.channel_of("null", both) == [Channel.EMAIL, Channel.SMS]
    assert routes.channel_of("smtp", one) == [Channel.EMAIL]
    assert routes.channel_of("gone", one) == []
