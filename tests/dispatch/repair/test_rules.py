"""What the reconciler does, as tables: one line for each situation."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from dashboard.dispatch.repair.rules import (
    Repair,
    Sending,
    Waiting,
    Windows,
    about_sending,
    about_waiting,
)
from dashboard.dispatch.states import Hold, NextStep, State

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
WINDOWS = Windows(stall=10 * MINUTE, stall_retries=2, lost_job=MINUTE / 2, maximum_wait=72 * HOUR)
# Published a moment ago, a queue at work, nobody overtook it: nothing to repair.
HEALTHY = Waiting(
    state=State.QUEUED,
    hold=Hold.NONE,
    next_step=NextStep.SEND,
    due_at=NOW - MINUTE / 6,
    expires_at=None,
    published_at=NOW - MINUTE / 6,
    replaced=False,
    stalls=0,
    stalled_at=None,
    queue_jobs=12,
    overtaken=False,
    claimed_lately=True,
)
PUBLISHED_LONG_AGO = {"published_at": NOW - MINUTE}
DUE_LONG_AGO = {"due_at": NOW - 11 * MINUTE, "published_at": NOW - 11 * MINUTE}


@pytest.mark.parametrize(
    ("situation", "repair"),
    [
        ({}, Repair.NOTHING),
        # Lost jobs
        ({**PUBLISHED_LONG_AGO, "queue_jobs": 0}, Repair.PUBLISH_AGAIN),
        ({**PUBLISHED_LONG_AGO, "overtaken": True}, Repair.PUBLISH_AGAIN),
        (PUBLISHED_LONG_AGO, Repair.NOTHING),
        ({**PUBLISHED_LONG_AGO, "queue_jobs": None}, Repair.NOTHING),
        ({"queue_jobs": 0}, Repair.NOTHING),
        ({"queue_jobs": 0, "published_at": None}, Repair.NOTHING),
        # Stalled: nobody works, or the others passed it
        ({**DUE_LONG_AGO, "claimed_lately": False}, Repair.STALL),
        ({**DUE_LONG_AGO, "overtaken": True}, Repair.STALL),
        (DUE_LONG_AGO, Repair.NOTHING),
        ({"claimed_lately": False}, Repair.NOTHING),
        ({**DUE_LONG_AGO, "claimed_lately": False, "stalled_at": NOW - MINUTE}, Repair.NOTHING),
        (
            {**DUE_LONG_AGO, "claimed_lately": False, "stalled_at": NOW - 11 * MINUTE},
            Repair.STALL,
        ),
        # Give up: only what was overtaken often enough
        (
            {**DUE_LONG_AGO, "state": State.STALLED, "overtaken": True, "stalls": 2},
            Repair.GIVE_UP,
        ),
        ({**DUE_LONG_AGO, "state": State.STALLED, "overtaken": True, "stalls": 1}, Repair.STALL),
        (
            {**DUE_LONG_AGO, "state": State.STALLED, "claimed_lately": False, "stalls": 9},
            Repair.STALL,
        ),
        # Expired, held and replaced ones too
        ({"expires_at": NOW}, Repair.EXPIRE),
        ({"expires_at": NOW + MINUTE}, Repair.NOTHING),
        ({"expires_at": NOW, "hold": Hold.ROUTE}, Repair.EXPIRE),
        ({"expires_at": NOW, "replaced": True}, Repair.EXPIRE),
        ({"expires_at": NOW, "next_step": NextStep.LOOK_UP}, Repair.EXPIRE),
        ({"due_at": NOW - 73 * HOUR}, Repair.EXPIRE),
        ({"due_at": NOW - 73 * HOUR, "hold": Hold.QUIET}, Repair.EXPIRE),
        # Never sent by itself
        ({**DUE_LONG_AGO, "claimed_lately": False, "hold": Hold.ROUTE}, Repair.NOTHING),
        ({**DUE_LONG_AGO, "claimed_lately": False, "replaced": True}, Repair.NOTHING),
        (
            {**DUE_LONG_AGO, "claimed_lately": False, "next_step": NextStep.LOOK_UP},
            Repair.NOTHING,
        ),
        (
            {"due_at": NOW + MINUTE, "published_at": NOW - HOUR, "queue_jobs": 0},
            Repair.NOTHING,
        ),
    ],
)
def test_a_waiting_dispatch(situation, repair) -> None:
    assert about_waiting(replace(HEALTHY, **situation), NOW, WINDOWS) is repair


DEADLINE = 3 * MINUTE


@pytest.mark.parametrize(
    ("alive", "age", "handed_over", "losses", "repair"),
    [
        (True, MINUTE, False, 0, Repair.NOTHING),
        (True, MINUTE, True, 0, Repair.NOTHING),
        (True, DEADLINE, True, 0, Repair.NOTHING),
        (True, 4 * MINUTE, False, 0, Repair.CLOSE_LOST),
        (True, 4 * MINUTE, True, 0, Repair.DOUBT),
        (False, MINUTE, False, 0, Repair.CLOSE_LOST),
        (False, MINUTE, False, 1, Repair.CLOSE_LOST),
        (False, MINUTE, False, 2, Repair.FAIL_LOST),
        (False, MINUTE, True, 0, Repair.DOUBT),
        (False, MINUTE, True, 2, Repair.DOUBT),
    ],
)
def test_a_dispatch_in_the_hands_of_a_worker(alive, age, handed_over, losses, repair) -> None:
    sending = Sending(NOW - age, not alive, handed_over, losses)
    assert about_sending(sending, NOW, DEADLINE) is repair
