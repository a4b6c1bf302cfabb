"""Workers that are killed again and again, wake up late, or run for long."""

import time
import uuid

import pytest

from dashboard.dispatch.states import Failure, State
from dashboard.queueing.connection import redis_connection
from tests.processes import wait_until

pytestmark = pytest.mark.faults


def test_what_kills_its_worker_three_times_is_errored_and_takes_no_others_along(here):
    here.processes.environment["WIREROOM_LOST_JOB_SECONDS"] = "60"
    here.processes.keepers()
    (killer,) = here.send()
    others: list[uuid.UUID] = []
    for losses in (1, 2, 3):
        worker = here.processes.gated_worker("mark")
        worker.wait_paused(20)
        assert [len(here.attempts(one)) for one in others] == [0] * len(others), "claimed alone"
        worker.kill()
        here.wait(lambda count=losses: here.row(killer).losses == count)
        others = others or here.queue(5)
    row = here.row(killer)
    assert (row.state, row.failure) == (State.ERRORED, Failure.LOST)
    assert "Killed its worker 3 times" in row.error
    here.processes.worker()
    here.publish(others)
    here.wait_for_states(errored=1, sent=5)
    assert here.sink.counts() == {str(one): 1 for one in others}


def test_a_worker_that_stood_still_after_its_mark_does_not_call_any_more(here):
    first = here.processes.gated_worker("call")
    here.processes.keepers()
    (one,) = here.send()
    first.wait_paused()
    paused_at = time.monotonic()
    here.processes.worker()
    here.wait_for_states(sent=1)
    wait_until(lambda: time.monotonic() - paused_at > 6, 10)
    version = here.row(one).version
    first.resume()
    first.wait_for("dispatch not handed over")
    assert first.stop() == 0
    assert here.sink.counts() == {str(one): 1}
    assert here.row(one).version == version


def test_a_late_outcome_is_kept_on_its_own_attempt_and_changes_nothing(here):
    first = here.processes.gated_worker("record")
    here.processes.keepers()
    (one,) = here.send()
    first.wait_paused()
    here.processes.worker()
    here.wait_for_states(sent=1)
    version = here.row(one).version
    first.resume()
    here.wait(lambda: [a.outcome for a in here.attempts(one)] == ["accepted", "accepted"])
    assert here.row(one).version == version
    assert here.sink.counts() == {str(one): 2}, "policy resend: lost after the hand-over"


def test_an_emptied_redis_is_filled_again_within_two_minutes_of_the_ordinary_windows(here):
    for name in ("LOST_JOB", "WORKER_GONE", "RECONCILE", "RELEASE", "SEND_DEADLINE"):
        del here.processes.environment[f"WIREROOM_{name}_SECONDS"]
    here.processes.keepers()
    ids = here.send(100)
    redis_connection(here.settings).flushall()
    here.processes.worker()
    here.wait_for_states(sent=100, seconds=120)
    assert here.sink.counts() == {str(one): 1 for one in ids}


def test_a_plain_rq_worker_sends_as_well(here):
    url = here.settings.redis_url
    here.processes.command("rq", "-m", "rq.cli", "worker", "default", "--url", url)
    (one,) = here.send()
    here.wait_for_states(sent=1, seconds=60)
    assert here.sink.counts() == {str(one): 1}


def test_a_plain_rq_worker_that_takes_long_is_not_taken_for_a_lost_one(here):
    here.sink.hold_answers()
    here.processes.keepers()
    url = here.settings.redis_url
    here.processes.command("rq", "-m", "rq.cli", "worker", "default", "--url", url)
    (one,) = here.send()
    here.wait(lambda: here.sink.counts() == {str(one): 1}, 60)
    time.sleep(6)  # four times what makes a registered worker a lost one
    assert here.row(one).state is State.SENDING
    here.sink.answer()
    here.wait_for_states(sent=1)
    assert here.sink.counts() == {str(one): 1}


def test_the_memory_of_a_worker_stays_flat_over_three_thousand_sends(here):
    worker = here.processes.worker().ready()
    here.send(500)
    here.wait_for_states(sent=500, seconds=60)
    before = worker.memory_kb()
    here.send(3000)
    here.wait_for_states(sent=3500, seconds=120)
    after = worker.memory_kb()
    assert after < before * 1.2, f"{before} kB after 500, {after} kB after 3,500"
    assert after < 160 * 1024
    assert here.sink.twice() == []
