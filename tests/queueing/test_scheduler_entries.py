"""Ticks, damaged entries and those of other applications, one look at a time."""

import pickle
import time
from datetime import UTC, datetime, timedelta

import pytest
from redis import Redis
from rq import Queue as RQQueue
from rq import SimpleWorker
from rq.job import Job
from rq_scheduler import Scheduler

from dashboard.queueing.scheduler_keys import CHILDREN, QUARANTINE
from dashboard.queueing.scheduler_state import scheduler_state
from tests.queueing import scheduler_parts
from tests.queueing.scheduler_parts import ENTRY, SCHEDULE, a_task, due_now, finish, look, queued

# Ticks


def test_a_tick_enqueues_a_job_of_its_own_and_keeps_the_template(redis):
    look(redis)
    (child,) = queued(redis)
    job = Job.fetch(child, connection=redis)
    assert job.func_name == "tests.queueing.scheduler_parts.tick"
    assert (job.timeout, job.result_ttl, job.failure_ttl) == (-1, 600, 86400)
    assert job.meta["task"] == "release"
    assert child == f"{ENTRY}--{round(job.meta['due_at'] * 1000)}"
    assert Job.fetch(ENTRY, connection=redis).get_status() == "scheduled"


def test_missed_ticks_count_once_and_the_beat_is_kept(redis):
    scheduler = look(redis)
    finish(redis)
    due = due_now(redis, ago=10.2)
    scheduler.tick()
    assert len(queued(redis)) == 1
    beats = (redis.zscore(SCHEDULE, ENTRY) - due) / 0.5
    assert beats == pytest.approx(round(beats), abs=0.01)
    assert 0 < redis.zscore(SCHEDULE, ENTRY) - time.time() <= 0.5


def test_many_restarts_neither_starve_nor_double_a_task(redis):
    deadline = time.monotonic() + 2.2
    runs: list[str] = []
    while time.monotonic() < deadline:
        look(redis).register_death()
        runs += queued(redis)
        finish(redis)
        time.sleep(0.01)
    assert len(runs) == len(set(runs))
    assert len(runs) in (4, 5)


def test_a_tick_that_another_scheduler_took_is_not_taken_again(redis):
    scheduler = look(redis)
    finish(redis)
    due = due_now(redis)
    scheduler.tick()
    assert len(queued(redis)) == 1
    redis.zadd(SCHEDULE, {ENTRY: due})  # as if the other one had read it before the advance
    finish(redis)
    scheduler.tick()
    assert queued(redis) == []


def test_one_that_waits_on_its_queue_is_not_joined_by_a_second(redis):
    scheduler = look(redis)
    for _ in range(5):
        due_now(redis, ago=3600)
        scheduler.tick()
    assert len(queued(redis)) == 1


def test_a_running_one_holds_the_next_back_only_for_its_timeout(redis):
    scheduler = look(redis)
    child = redis.lpop("rq:queue:clock").decode()
    began = datetime.now(UTC) - timedelta(seconds=29)
    redis.hset(f"rq:job:{child}", mapping={"status": "started", "started_at": began.isoformat()})
    due_now(redis)
    scheduler.tick()
    assert queued(redis) == []
    assert redis.zscore(SCHEDULE, ENTRY) > time.time()

    began = datetime.now(UTC) - timedelta(seconds=31)
    redis.hset(f"rq:job:{child}", "started_at", began.isoformat())
    due_now(redis)
    scheduler.tick()
    assert len(queued(redis)) == 1


@pytest.mark.parametrize("loss", ["gone", "finished", "failed", "off its queue for long"])
def test_one_that_is_over_or_lost_does_not_hold_the_next_back(redis, loss):
    scheduler = look(redis)
    child = redis.lpop("rq:queue:clock").decode()
    if loss == "gone":
        redis.delete(f"rq:job:{child}")
    elif loss == "off its queue for long":
        old = f"{ENTRY}--{round((time.time() - 31) * 1000)}"
        redis.rename(f"rq:job:{child}", f"rq:job:{old}")
        redis.hset(CHILDREN, ENTRY, old)
    else:
        redis.hset(f"rq:job:{child}", "status", loss)
    due_now(redis)
    scheduler.tick()
    assert len(queued(redis)) == 1


def test_failed_runs_and_their_removal_leave_the_task_in_the_schedule(redis, valkey):
    task = a_task(interval=0.1, job="tests.queueing.scheduler_parts.fail")
    scheduler = look(redis, task)
    worker_connection = valkey.connect(timeout=10)
    SimpleWorker(["clock"], connection=worker_connection).work(burst=True, logging_level="CRITICAL")
    registry = RQQueue("clock", connection=redis).failed_job_registry
    (failed,) = registry.get_job_ids(cleanup=False)
    registry.remove(failed, delete_job=True)
    time.sleep(0.15)
    scheduler.tick()
    assert len(queued(redis)) == 1
    assert redis.zscore(SCHEDULE, ENTRY) is not None


# Damage


def poison(redis: Redis, kind: str) -> bytes:
    """Put a damaged entry into the schedule, due before every other."""
    entry = f"poison-{kind}".encode()
    good = Job.create(scheduler_parts.tick, connection=redis, origin="clock", id=entry.decode())
    if kind == "call":
        good.save()
        redis.hset(good.key, "data", b"\x80\x04 no pickle")
    elif kind == "meta":
        good.save()
        redis.hset(good.key, "meta", b"\x80 no pickle")
    elif kind == "interval":
        good.meta = {"interval": "often"}
        good.save()
    elif kind == "status":
        good.save()
        redis.hset(good.key, "status", "unheard of")
    elif kind == "type":
        redis.set(good.key, "no hash")
    elif kind == "name":
        entry = b"\xff\xfe: no name"
    redis.zadd(SCHEDULE, {entry: 1.0})
    return entry


@pytest.mark.parametrize("kind", ["call", "meta", "interval", "status", "type", "name", "missing"])
def test_a_damaged_entry_is_put_aside_and_the_others_run(redis, kind):
    entry = poison(redis, kind)
    scheduler = look(redis)
    assert len(queued(redis)) == 1
    assert redis.hexists(QUARANTINE, entry)
    assert redis.zscore(SCHEDULE, entry) is None
    finish(redis)
    due_now(redis)
    scheduler.tick()
    assert len(queued(redis)) == 1
    state = scheduler_state(redis, (a_task(),))
    assert state.quarantined_count == 1
    assert state.quarantined[0].reason
    assert "cannot be decoded" in state.problems[0]


def test_a_damaged_entry_of_our_own_is_declared_again(redis):
    scheduler = look(redis)
    finish(redis)
    redis.hset(f"rq:job:{ENTRY}", "data", b"broken")
    due_now(redis)
    scheduler.tick()
    assert scheduler_state(redis, (a_task(),)).quarantined_count == 1
    scheduler._declare_at = 0.0  # instead of waiting for 5 s
    scheduler.tick()
    assert len(queued(redis)) == 1
    assert scheduler_state(redis, (a_task(),)).quarantined_count == 0


# Entries of other applications


def test_entries_made_with_rq_scheduler_itself_are_kept(redis):
    theirs = Scheduler("clock", connection=redis)
    past = datetime.now(UTC) - timedelta(minutes=1)
    theirs.enqueue_at(past, scheduler_parts.tick, job_id="once")
    theirs.schedule(past, scheduler_parts.tick, interval=60, id="beat")
    theirs.schedule(past, scheduler_parts.tick, interval=60, repeat=2, id="twice")
    theirs.cron("0 3 * * *", scheduler_parts.tick, id="cron", queue_name="clock")
    due_now(redis, "cron")
    scheduler = look(redis, a_task(interval=3600))
    names = sorted(child.rpartition("--")[0] or child for child in queued(redis))
    assert names == ["beat", "cron", "once", "twice", ENTRY]
    assert redis.zscore(SCHEDULE, "once") is None
    at_three = datetime.fromtimestamp(redis.zscore(SCHEDULE, "cron"), UTC)
    assert at_three > datetime.now(UTC)

    finish(redis)
    for entry in ("beat", "twice"):
        due_now(redis, entry)
    scheduler.tick()
    assert sorted(child.rpartition("--")[0] for child in queued(redis)) == ["beat", "twice"]
    assert redis.zscore(SCHEDULE, "beat") is not None
    assert redis.zscore(SCHEDULE, "twice") is None


def test_the_call_of_a_copied_job_is_the_call_of_its_template(redis):
    theirs = Scheduler("clock", connection=redis)
    theirs.schedule(
        datetime.now(UTC), "some.where", args=[1, "two"], kwargs={"three": 3}, interval=60, id="t"
    )
    due_now(redis, "t", ago=1)
    look(redis, a_task(interval=3600))
    (child,) = [name for name in queued(redis) if name.startswith("t--")]
    job = Job.fetch(child, connection=redis)
    assert (job.func_name, job.args, job.kwargs) == ("some.where", [1, "two"], {"three": 3})
    assert pickle.loads(job.data)[0] == "some.where"  # noqa: S301 - our own bytes
