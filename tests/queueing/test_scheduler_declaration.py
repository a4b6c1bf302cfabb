"""The declaration, the epoch and the lock, one look at a time."""

import time

from rq.job import Job

from dashboard.queueing.scheduler import HardenedScheduler
from dashboard.queueing.scheduler_keys import EPOCH
from dashboard.queueing.scheduler_lock import TokenLock
from tests.queueing.scheduler_parts import ENTRY, SCHEDULE, a_task, finish, look, queued


def test_what_is_as_declared_is_not_touched(redis):
    look(redis)
    before = redis.hgetall(f"rq:job:{ENTRY}"), redis.zscore(SCHEDULE, ENTRY)
    look(redis)
    assert (redis.hgetall(f"rq:job:{ENTRY}"), redis.zscore(SCHEDULE, ENTRY)) == before


def test_missing_changed_and_unknown_tasks_are_brought_in_line(redis):
    look(redis, a_task(interval=3600), a_task("gone", interval=3600))
    finish(redis)
    look(redis, a_task(interval=60), a_task("new"))
    assert {entry.decode() for entry in redis.zrange(SCHEDULE, 0, -1)} == {ENTRY, "wireroom-new"}
    assert not redis.exists("rq:job:wireroom-gone")
    assert redis.zscore(SCHEDULE, ENTRY) <= time.time() + 61
    assert Job.fetch(ENTRY, connection=redis).meta["interval"] == 60
    assert [child.rpartition("--")[0] for child in queued(redis)] == ["wireroom-new"]


def test_an_entry_that_was_removed_comes_back_without_an_extra_run(redis):
    look(redis, a_task(interval=60))
    finish(redis)
    due = redis.zscore(SCHEDULE, ENTRY)
    redis.zrem(SCHEDULE, ENTRY)
    look(redis, a_task(interval=60))
    assert queued(redis) == []
    assert redis.zscore(SCHEDULE, ENTRY) == due


def test_a_due_time_from_a_wrong_clock_is_corrected(redis):
    look(redis)
    redis.zadd(SCHEDULE, {ENTRY: time.time() + 86400})
    look(redis)
    assert redis.zscore(SCHEDULE, ENTRY) <= time.time() + 0.6


# The epoch


def test_the_epoch_begins_only_after_the_call_back_succeeded(redis):
    calls = []

    def database_is_away() -> None:
        calls.append(redis.exists(EPOCH))
        if len(calls) < 3:
            raise ConnectionError("away")

    scheduler = look(redis, on_epoch_lost=database_is_away)
    assert len(queued(redis)) == 1, "periodic tasks run meanwhile"
    for _ in range(4):
        assert not redis.exists(EPOCH) or len(calls) == 3
        scheduler._epoch_at = 0.0  # instead of waiting for the backoff
        scheduler.tick()
    assert calls == [0, 0, 0]
    assert redis.exists(EPOCH)


def test_a_redis_emptied_during_the_call_back_counts_as_lost_again(redis):
    calls = []

    def emptied_meanwhile() -> None:
        calls.append(1)
        if len(calls) == 1:
            redis.flushall()

    scheduler = look(redis, on_epoch_lost=emptied_meanwhile)
    assert not redis.exists(EPOCH)
    scheduler._epoch_at = 0.0
    scheduler.tick()
    assert len(calls) == 2
    assert redis.exists(EPOCH)
    assert redis.zscore(SCHEDULE, ENTRY) is not None


def test_after_the_loss_everything_is_due_now(redis):
    tasks = a_task(interval=3600), a_task("daily", interval=86400)
    scheduler = look(redis, *tasks)
    finish(redis)
    redis.flushall()
    scheduler.tick()
    assert len(queued(redis)) == 2


def test_only_its_holder_extends_and_releases_a_lock(redis):
    mine = TokenLock(redis, "lock", token="mine", lease_seconds=5)
    other = TokenLock(redis, "lock", token="other", lease_seconds=5)
    assert mine.acquire()
    assert mine.acquire(), "one that was cut off finds its own lock again"
    assert not other.acquire()
    assert not other.extend()
    assert not other.release()
    redis.delete("lock")
    assert other.acquire()
    assert not mine.extend()
    assert not mine.release()
    assert other.release()


def test_a_scheduler_whose_lease_ended_stops_at_once(redis):
    class Slow(HardenedScheduler):
        def _keep_declared(self) -> None:
            super()._keep_declared()
            redis.set("rq:scheduler_lock", "another scheduler")

    Slow(redis, [a_task()]).tick()
    assert queued(redis) == []
    assert redis.get("rq:scheduler_lock") == b"another scheduler"
