"""The sentence and the buttons of a dispatch, over every state and failure."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from dashboard.dispatch.actions.buttons import Action, buttons_for
from dashboard.dispatch.actions.situation import Situation
from dashboard.dispatch.states import MOVES, Failure, Hold, NextStep, State, Trigger
from dashboard.dispatch.story.sentence import diagnose

NOW = datetime(2026, 12, 1, 12, 3, tzinfo=UTC)
TRIGGERS = {Action.RETRY: Trigger.RETRY, Action.CANCEL: Trigger.CANCEL}


def situation(state: State, **values: object) -> Situation:
    defaults: dict[str, object] = {
        "requested_at": NOW - timedelta(minutes=10),
        "due_at": NOW - timedelta(minutes=10),
        "started_at": NOW - timedelta(seconds=4),
        "finished_at": NOW,
        "attempts": 2,
        "tries": 2,
        "worker": "w-7f",
        "queue": "default",
        "provider": "anymail:postmark",
        "error": "451 Try again later",
    }
    return Situation(state=state, now=NOW, **{**defaults, **values})  # type: ignore[arg-type]


ALL = [
    situation(
        state, failure=failure, permanent=permanent, maybe_sent=maybe, hold=hold, next_step=step
    )
    for state, failure, permanent, maybe, hold, step in product(
        State, Failure, (False, True), (False, True), Hold, NextStep
    )
]


def test_every_situation_has_a_whole_sentence_and_a_short_line() -> None:
    for one in ALL:
        told = diagnose(one)
        assert told.headline[0].isupper(), one
        assert told.headline[-1] in ".…”", told.headline
        assert told.short, one
        assert "{" not in told.headline + told.detail + told.short
        assert "  " not in told.headline + told.detail


def test_no_button_is_offered_that_the_rules_refuse() -> None:
    for one in ALL:
        for button in buttons_for(one):
            trigger = TRIGGERS.get(button.action)
            if trigger is not None:
                assert (one.state, trigger) in MOVES, (one.state, button)


def test_every_button_says_what_the_press_does() -> None:
    for one in ALL:
        for button in diagnose(one).buttons:
            assert button.consequence.endswith(".")
            assert button.label.endswith("…") == button.asks


def test_what_may_have_arrived_is_asked_once_more_before_it_is_sent_again() -> None:
    for one in ALL:
        for button in diagnose(one).buttons:
            may_double = button.action in (Action.RETRY, Action.RESEND) and one.maybe_sent
            if may_double:
                assert button.asks
                assert "twice" in button.consequence


@pytest.mark.parametrize(
    "state", [State.ERRORED, State.STALLED, State.CANCELLED, State.UNCONFIRMED]
)
def test_an_unproven_arrival_is_said(state: State) -> None:
    told = diagnose(situation(state, maybe_sent=True))
    assert "may have arrived" in told.detail


def test_a_replaced_dispatch_has_no_buttons() -> None:
    for state in State:
        told = diagnose(situation(state, replaced=True))
        assert told.buttons == ()
        assert "replaced" in told.detail


@pytest.mark.parametrize(
    ("state", "values", "headline"),
    [
        (State.QUEUED, {}, "Waiting for a worker since 11:53:00 UTC."),
        (State.QUEUED, {"due_at": NOW + timedelta(hours=1)}, "Scheduled for 13:03:00 UTC."),
        (State.SENDING, {}, "Attempt 2 started 4\u00a0s ago on worker w-7f."),
        (State.AWAITING, {}, "Postmark accepted it at 12:03:00 UTC; no delivery report yet."),
        (
            State.DELAYED,
            {"due_at": NOW + timedelta(minutes=5)},
            "Will be tried again at 12:08:00 UTC, try 3 of 12.",
        ),
        (
            State.DELAYED,
            {"next_step": NextStep.LOOK_UP},
            "Asking Postmark whether attempt 2 arrived.",
        ),
        (State.STALLED, {}, "Stalled. No worker has taken it for 10\u00a0min."),
        (
            State.ERRORED,
            {"failure": Failure.REFUSED, "permanent": True},
            "Not sent. Postmark refused it.",
        ),
        (
            State.ERRORED,
            {"failure": Failure.EXHAUSTED},
            "Not sent. Postmark did not take it in 2\u00a0tries.",
        ),
        (State.SENT, {}, "Sent. Postmark accepted it at 12:03:00 UTC."),
        (State.SUCCEEDED, {}, "Delivered at 12:03:00 UTC."),
        (
            State.UNCONFIRMED,
            {"proven": True},
            "Outcome unknown. Postmark accepted it, but no report came.",
        ),
        (
            State.CANCELLED,
            {"cancelled_by": "user:operator@example.com", "cancel_reason": "wrong template"},
            "Cancelled by operator@example.com at 12:03:00 UTC: wrong template.",
        ),
    ],
)
def test_each_state_says_what_happened(
    state: State, values: dict[str, object], headline: str
) -> None:
    assert diagnose(situation(state, **values)).headline == headline


def test_a_permanent_refusal_offers_a_new_message_first() -> None:
    refused = situation(State.ERRORED, failure=Failure.REFUSED, permanent=True)
    told = diagnose(refused)
    assert told.buttons[0].action is Action.RESEND
    assert "Trying again will not help." in told.detail
    passing = diagnose(replace(refused, failure=Failure.EXHAUSTED, permanent=False))
    assert passing.buttons[0].action is Action.RETRY
    assert "trying again is safe" in passing.detail


@pytest.mark.parametrize(
    ("ahead", "workers", "line"),
    [
        (212, 3, "212 ahead of it, 3\u00a0workers on the queue default."),
        (0, 1, "Nothing is ahead of it, 1\u00a0worker on the queue default."),
        (5, 0, "5 ahead of it, and no worker is on the queue default. Start one."),
        (1000, 2, "Over 1,000 ahead of it, 2\u00a0workers on the queue default."),
    ],
)
def test_who_waits_sees_how_many_are_ahead(ahead: int, workers: int, line: str) -> None:
    assert diagnose(situation(State.QUEUED, ahead=ahead, workers=workers)).detail == line


def test_a_held_dispatch_names_why_and_cannot_be_tried_now() -> None:
    held = situation(State.DELAYED, hold=Hold.ROUTE, hold_reason="535 Authentication failed")
    told = diagnose(held)
    assert "535 Authentication failed" in told.detail
    assert Action.RETRY not in [one.action for one in told.buttons]


def test_a_noted_cancel_is_said_while_it_is_sending() -> None:
    told = diagnose(situation(State.SENDING, cancel_noted_by="user:bo@example.com"))
    assert "bo@example.com asked to cancel it" in told.detail


def test_an_acknowledged_outcome_cannot_be_acknowledged_again() -> None:
    told = diagnose(situation(State.UNCONFIRMED, acknowledged_by="user:bo@example.com"))
    assert Action.ACKNOWLEDGE not in [one.action for one in told.buttons]
    assert "bo@example.com looked at it" in told.detail
