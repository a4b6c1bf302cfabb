"""What pages and health checks learn about the scheduler."""

import json
import signal
import time

from dashboard.queueing.scheduler import HardenedScheduler
from dashboard.queueing.scheduler_keys import QUARANTINE, SEEN
from dashboard.queueing.scheduler_state import SHOWN_IN_QUARANTINE, scheduler_state
from tests.queueing.scheduler_parts import a_task

TIMETABLE = (a_task(interval=5),)


def test_it_says_that_a_scheduler_was_never_seen(redis):
    state = scheduler_state(redis, TIMETABLE)
    assert state.is_late
    assert state.problems == ("The scheduler was never seen. Start it: `wireroom scheduler`.",)
    assert state.missing == ("release",)


def test_a_running_scheduler_has_no_problems(redis):
    HardenedScheduler(redis, TIMETABLE).tick()
    state = scheduler_state(redis, TIMETABLE)
    assert state.problems == ()
    assert state.seen_seconds is not None
    assert state.seen_seconds < 1
    assert abs(state.clock_skew_seconds or 0.0) < 1
    assert state.epoch
    (task,) = state.tasks
    assert task.is_declared
    assert task.last_job_id.startswith("wireroom-release--")
    assert task.late_seconds == 0


def test_it_is_late_after_three_of_the_shortest_intervals(redis):
    for age, late in ((14, False), (16, True)):
        note = {"redis_time": time.time() - age, "process_time": time.time() - age + 600}
        redis.set(SEEN, json.dumps(note))
        state = scheduler_state(redis, TIMETABLE)
        assert state.is_late is late
    assert state.problems[0].startswith("The scheduler was last seen 16 s ago")
    assert round(state.clock_skew_seconds or 0) == 600


def test_a_missing_entry_is_named(redis):
    HardenedScheduler(redis, TIMETABLE).tick()
    state = scheduler_state(redis, (*TIMETABLE, a_task("poll")))
    assert state.missing == ("poll",)
    assert "Not in the schedule: poll." in state.problems[0]


def test_an_overdue_entry_says_for_how_long(redis):
    HardenedScheduler(redis, TIMETABLE).tick()
    redis.zadd("rq:scheduler:scheduled_jobs", {"wireroom-release": time.time() - 40})
    (task,) = scheduler_state(redis, TIMETABLE).tasks
    assert 39 < task.late_seconds < 42


def test_a_full_quarantine_is_counted_and_cut(redis):
    for number in range(400):
        redis.hset(QUARANTINE, f"entry-{number}", "no json")
    state = scheduler_state(redis, TIMETABLE)
    assert state.quarantined_count == 400
    assert 0 < len(state.quarantined) <= SHOWN_IN_QUARANTINE


def test_looking_changes_nothing(redis):
    HardenedScheduler(redis, TIMETABLE).tick()
    before = redis.info("persistence")["rdb_changes_since_last_save"]
    scheduler_state(redis, TIMETABLE)
    assert redis.info("persistence")["rdb_changes_since_last_save"] == before


def test_a_redis_that_is_gone_or_hangs_is_answered_within_a_second(redis, valkey):
    valkey.send(signal.SIGSTOP)
    began = time.monotonic()
    assert not scheduler_state(redis, TIMETABLE).redis_answers
    valkey.send(signal.SIGCONT)
    assert time.monotonic() - began < 1
    valkey.kill()
    assert scheduler_state(redis, TIMETABLE).is_late
