"""The scheduler as a process: killed, doubled, without Redis, stopped."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from redis import Redis
from redis.exceptions import RedisError

from dashboard.queueing.scheduler import HardenedScheduler
from dashboard.queueing.scheduler_state import scheduler_state
from tests.queueing.scheduler_parts import a_task

HERE = Path(__file__).parent
SCHEDULE = "rq:scheduler:scheduled_jobs"
ENTRY = b"wireroom-release"


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Start `scheduler_parts.py` with these arguments; all are killed in the end."""
    started = []
    path = os.pathsep.join([str(HERE), str(HERE.parent.parent)])

    def run(*arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "scheduler_parts.py"), *arguments],
            env={**os.environ, "PYTHONPATH": path},
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()


def wait_for(condition: Callable[[], object], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        with suppress(RedisError):
            if condition():
                return
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.02)


def queued(redis: Redis) -> list[bytes]:
    """The runs that were enqueued, oldest first."""
    return redis.lrange("rq:queue:clock", 0, -1)


def take_all(redis: Redis) -> list[bytes]:
    """Finish whatever waits, as a fast worker would, keeping the ids taken."""
    taken = []
    while (job := redis.lpop("rq:queue:clock")) is not None:
        redis.hset(b"rq:job:" + job, "status", "finished")
        taken.append(job)
    return taken


def test_two_schedulers_make_each_tick_once_and_one_is_enough(redis, valkey, start):
    first = start("scheduler", valkey.url, "0.5")
    start("scheduler", valkey.url, "0.5")
    wait_for(lambda: redis.keys("rq:scheduler_instance:*") and queued(redis))
    wait_for(lambda: len(redis.keys("rq:scheduler_instance:*")) == 2)
    runs, deadline = [], time.monotonic() + 2.5
    while time.monotonic() < deadline:
        runs += take_all(redis)
        time.sleep(0.02)
    assert len(runs) == len(set(runs))
    assert 4 <= len(runs) <= 7

    first.kill()
    wait_for(lambda: take_all(redis), 8.0)  # it may have held the lock; its lease is 5 s


@pytest.mark.parametrize("point", ["enqueue_jobs", "get_queue_for_job", "_move_on"])
def test_a_kill_at_any_point_loses_and_doubles_nothing(redis, valkey, start, point):
    """Before reading what is due (lock held), before the enqueue, between it and the advance."""
    killed = start("scheduler", valkey.url, "60", point)
    assert killed.wait(10) == -signal.SIGKILL
    assert redis.exists("rq:scheduler_lock")
    assert redis.zscore(SCHEDULE, ENTRY) is not None

    began = time.monotonic()
    scheduler = HardenedScheduler(redis, [a_task(interval=60)])
    redis.pexpire("rq:scheduler_lock", 300)  # the lease of the one that was killed, shortened
    while redis.zscore(SCHEDULE, ENTRY) < time.time():
        assert time.monotonic() - began < 8
        scheduler.tick()
        time.sleep(0.05)
    assert len(queued(redis)) == 1
    scheduler.tick()
    assert len(queued(redis)) == 1


def test_a_lock_whose_holder_was_killed_ends_within_its_lease(redis, valkey, start):
    start("scheduler", valkey.url, "0.5", "enqueue_jobs").wait(10)
    assert 0 < redis.pttl("rq:scheduler_lock") <= 5000
    start("scheduler", valkey.url, "0.5")
    wait_for(lambda: queued(redis), 8.0)


def test_redis_may_be_killed_or_hang_and_the_process_goes_on(redis, valkey, start):
    process = start("scheduler", valkey.url, "0.5")
    wait_for(lambda: take_all(redis))

    valkey.kill()
    time.sleep(1.5)
    assert process.poll() is None
    valkey.start()
    epoch = redis.get("wireroom:scheduler:epoch")
    wait_for(lambda: take_all(redis), 4.0)

    valkey.send(signal.SIGSTOP)
    time.sleep(1.5)
    state = scheduler_state(redis, (a_task(),))
    valkey.send(signal.SIGCONT)
    assert not state.redis_answers
    assert state.problems[0].startswith("Redis does not answer")
    wait_for(lambda: take_all(redis), 4.0)
    assert process.poll() is None
    assert redis.get("wireroom:scheduler:epoch") == epoch


def test_it_starts_without_redis_and_works_once_there_is_one(redis, valkey, start):
    valkey.kill()
    process = start("scheduler", valkey.url, "0.5")
    time.sleep(1.2)
    assert process.poll() is None
    valkey.start()
    wait_for(lambda: queued(redis), 5.0)


def test_a_redis_that_was_emptied_is_filled_again_by_the_running_process(redis, valkey, start):
    start("scheduler", valkey.url, "60")
    wait_for(lambda: take_all(redis) and redis.exists("wireroom:scheduler:epoch"))
    before = redis.get("wireroom:scheduler:epoch")
    redis.flushall()
    wait_for(lambda: queued(redis) and redis.exists("wireroom:scheduler:epoch"), 3.0)
    assert redis.get("wireroom:scheduler:epoch") != before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_signal_ends_it_cleanly(redis, valkey, start, number):
    process = start("scheduler", valkey.url, "0.5")
    wait_for(lambda: queued(redis))
    process.send_signal(number)
    assert process.wait(3) == 0
    assert not redis.exists("rq:scheduler_lock")
    assert not redis.keys("rq:scheduler_instance:*")
    assert redis.zscore(SCHEDULE, ENTRY) is not None


def test_a_stop_signal_ends_it_while_redis_is_away(redis, valkey, start):
    process = start("scheduler", valkey.url, "0.5")
    wait_for(lambda: queued(redis))
    valkey.kill()
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    assert process.wait(4) == 0


def test_a_real_worker_runs_every_tick_and_the_task_stays_scheduled(redis, valkey, start):
    start("scheduler", valkey.url, "0.5")
    start("worker", valkey.url)
    wait_for(lambda: redis.llen("ran") >= 4)
    ran = redis.lrange("ran", 0, -1)
    assert len(ran) == len(set(ran))
    assert ENTRY not in ran
    assert redis.zscore(SCHEDULE, ENTRY) is not None
    assert redis.ttl(b"rq:job:" + ENTRY) == -1
    assert 0 < redis.ttl(b"rq:job:" + ran[0]) <= 600


def test_a_slow_task_never_runs_twice_at_once_with_two_workers(redis, valkey, start):
    for _ in range(2):
        start("worker", valkey.url)
    task = a_task(interval=0.1, job="tests.queueing.scheduler_parts.slow")
    scheduler = HardenedScheduler(redis, [task])
    deadline = time.monotonic() + 15
    while redis.llen("at once") < 3:
        assert time.monotonic() < deadline
        scheduler.tick()
        assert len(queued(redis)) <= 1
        time.sleep(0.05)
    assert set(redis.lrange("at once", 0, -1)) == {b"1"}
