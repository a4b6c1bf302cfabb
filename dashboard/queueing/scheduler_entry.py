"""One entry of the schedule: read it, make the job of one tick from it, say when it is due next.

An entry is a template (a job that is never enqueued itself) and a score (when it is due). Entries
that other applications made with rq-scheduler's own calls (interval, cron, repeat, once) work too.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any

from redis import Redis
from rq.exceptions import NoSuchJobError
from rq.job import Job, JobStatus
from rq_scheduler.utils import get_next_scheduled_time

from dashboard import clock
from dashboard.queueing.scheduler_keys import child_id, due_of_child
from dashboard.queueing.timetable import next_due

CHILD_RESULT_SECONDS = 600
CHILD_FAILURE_SECONDS = 24 * 3600
FOREIGN_OVERLAP_SECONDS = 600.0

_OVER = frozenset(
    {JobStatus.FINISHED, JobStatus.FAILED, JobStatus.STOPPED, JobStatus.CANCELED, JobStatus.CREATED}
)


@dataclass(frozen=True)
class Entry:
    """A template that could be read, with the time it is due."""

    template: Job
    raw: dict[bytes, bytes]
    due: float

    @property
    def interval(self) -> float:
        """Seconds from one tick to the next; 0 where it has none."""
        return float(self.template.meta.get("interval") or 0)

    @property
    def at(self) -> time | None:
        """The time of day, in UTC, if that is how it is due."""
        text = self.template.meta.get("at")
        return time.fromisoformat(text) if text else None

    @property
    def is_periodic(self) -> bool:
        """Whether it is due again after this tick; one that is not is enqueued itself, once."""
        return bool(self.interval or self.template.meta.get("cron_string"))

    @property
    def overlap_seconds(self) -> float:
        """How long a run that has begun holds back the next tick."""
        return float(self.template.meta.get("overlap_seconds") or FOREIGN_OVERLAP_SECONDS)

    @property
    def repeats_left(self) -> int | None:
        """Ticks that are left after this one, or None where there is no end."""
        repeat = self.template.meta.get("repeat")
        return None if repeat is None else max(0, int(repeat) - 1)

    def next_due(self, now: float) -> float | None:
        """Return when it is due after `now`, or None when this was its last tick."""
        return None if self.repeats_left == 0 else self.skipped_due(now)

    def skipped_due(self, now: float) -> float:
        """Return the same where this tick was left out, so that it does not count as one."""
        if cron := self.template.meta.get("cron_string"):
            # UTC whatever the entry says: in local time it fires every minute when clocks change.
            return float(get_next_scheduled_time(cron).timestamp())
        return next_due(self.due, now, interval=self.interval, at=self.at)

    def child(self) -> Job:
        """Return the job of this tick: a copy of the template under an id of its own."""
        template = self.template
        job = Job(
            child_id(template.id, self.due),
            connection=template.connection,
            serializer=template.serializer,
        )
        job.restore(self.raw)
        job.created_at = clock.now()
        # The result keeps the id taken: a tick that is tried again after a crash is not run again.
        job.result_ttl = max(template.result_ttl or 0, CHILD_RESULT_SECONDS)
        job.failure_ttl = template.failure_ttl or CHILD_FAILURE_SECONDS
        job.meta = {"task": template.meta.get("task", template.id), "due_at": self.due}
        return job


def read_entry(connection: Redis, job_id: str, due: float) -> Entry:
    """Return one entry, decoded to its last field.

    Raises:
        NoSuchJobError: its template is gone.
        ValueError, TypeError, KeyError, AttributeError, DeserializationError: it cannot be decoded.
    """
    job = Job(job_id, connection=connection)
    raw: Any = connection.hgetall(job.key)
    if not raw:
        raise NoSuchJobError("its job is gone from Redis")
    job.restore(raw)
    if not job.func_name:  # decodes the call; RQ's worker would die of one that cannot be
        raise ValueError("it names no function")
    if "unserialized" in job.meta:  # what RQ puts there when it cannot be decoded
        raise ValueError("its interval cannot be decoded")
    entry = Entry(job, raw, due)
    if entry.is_periodic:
        entry.next_due(due)
    return entry


def still_runs(connection: Redis, child: str, *, bound_seconds: float, now: float) -> bool:
    """Return whether an earlier run holds back the next tick.

    One that waits on its queue does: a second one behind it would do nothing more. One that began
    does for `bound_seconds`, because a killed worker never says so. One that is gone does not.
    """
    answer: Any = connection.hmget(Job.key_for(child), "status", "started_at", "origin")
    status, started_at, origin = (_text(value) for value in answer)
    if not status or status in _OVER:
        return False
    if status == JobStatus.QUEUED and connection.lpos(f"rq:queue:{origin}", child) is not None:
        return True
    begun = _timestamp(started_at)
    if begun is None or begun > now:  # a worker whose clock is ahead must not hold it back longer
        begun = due_of_child(child)
    return now - begun < bound_seconds


def _is_on_queue(connection: Redis, queue: str, job_id: str) -> bool:
    return connection.lpos(f"rq:queue:{queue}", job_id) is not None


def _text(value: bytes | None) -> str:
    return value.decode(errors="replace") if value else ""


def _timestamp(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
