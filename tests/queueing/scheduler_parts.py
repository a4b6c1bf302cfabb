"""What the scheduler tests run: jobs, and a scheduler process that can be told where to die.

python scheduler_parts.py scheduler URL INTERVAL [METHOD]: keeps one task; kills itself at METHOD.
python scheduler_parts.py worker URL: works off the queue `clock`.
"""

import os
import signal
import sys
import time
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from rq import SimpleWorker, get_current_job

from dashboard.queueing.names import Queue
from dashboard.queueing.scheduler import HardenedScheduler
from dashboard.queueing.timetable import Task

SCHEDULE = "rq:scheduler:scheduled_jobs"
ENTRY = "wireroom-release"


def a_task(name: str = "release", interval: float = 0.5, **given: Any) -> Task:
    """Return a line of a timetable."""
    values: dict[str, Any] = {
        "name": name,
        "job": "tests.queueing.scheduler_parts.tick",
        "queue": Queue.CLOCK,
        "interval_seconds": interval,
        "timeout_seconds": 30.0,
        "description": "Ticks.",
    }
    return Task(**{**values, **given})


def look(redis: Redis, *tasks: Task, **given: Any) -> HardenedScheduler:
    """Start a scheduler and let it look once."""
    scheduler = HardenedScheduler(redis, tasks or [a_task()], **given)
    scheduler.tick()
    return scheduler


def queued(redis: Redis, queue: str = "clock") -> list[str]:
    return [job.decode() for job in redis.lrange(f"rq:queue:{queue}", 0, -1)]


def due_now(redis: Redis, entry: str = ENTRY, ago: float = 0.0) -> float:
    """Make an entry due; returns its due time."""
    due = round(time.time() - ago - 0.001, 3)  # rounded up it would not be due yet
    redis.zadd(SCHEDULE, {entry: due})
    return due


def finish(redis: Redis, status: str = "finished") -> None:
    while job := redis.lpop("rq:queue:clock"):
        redis.hset(f"rq:job:{job.decode()}", "status", status)


def tick() -> None:
    """Write down that this job ran."""
    job = get_current_job()
    assert job is not None
    job.connection.rpush("ran", job.id)


def slow() -> None:
    """Count how many of these run at once, for 1.2 s."""
    job = get_current_job()
    assert job is not None
    job.connection.rpush("at once", job.connection.incr("running"))
    time.sleep(1.2)
    job.connection.decr("running")


def fail() -> None:
    """Fail."""
    raise RuntimeError("on purpose")


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _scheduler(url: str, interval: str, *methods: str) -> None:
    connection = Redis.from_url(
        url, socket_timeout=0.8, socket_connect_timeout=0.8, retry=Retry(NoBackoff(), 0)
    )
    task = a_task(interval=float(interval))
    scheduler = HardenedScheduler(connection, [task], interval=0.1)
    for method in methods:
        setattr(scheduler, method, lambda *_args, **_named: _die())
    scheduler.run()


def _worker(url: str) -> None:
    SimpleWorker([Queue.CLOCK.value], connection=Redis.from_url(url)).work(logging_level="ERROR")


if __name__ == "__main__":
    {"scheduler": _scheduler, "worker": _worker}[sys.argv[1]](*sys.argv[2:])
