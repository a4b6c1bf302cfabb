"""What pages and health checks say about the scheduler: when it was seen, what is due and broken.

Only reads, in one round trip; a Redis that does not answer is part of the answer.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from dashboard.queueing.scheduler_keys import CHILDREN, EPOCH, QUARANTINE, SEEN, template_id
from dashboard.queueing.timetable import Task

SCHEDULE_KEY = "rq:scheduler:scheduled_jobs"
LATE_INTERVALS = 3
SHOWN_IN_QUARANTINE = 50


@dataclass(frozen=True, slots=True)
class TaskState:
    """One line of the timetable as it stands in Redis.

    Attributes:
        task: the line.
        next_due_at: when it is due next; None when the entry is missing from the schedule.
        late_seconds: how long it has been due without a tick; 0 where it is not due.
        last_job_id: the RQ job of its latest tick, or "".
    """

    task: Task
    next_due_at: datetime | None
    late_seconds: float
    last_job_id: str

    @property
    def is_declared(self) -> bool:
        """Whether its entry is in the schedule."""
        return self.next_due_at is not None


@dataclass(frozen=True, slots=True)
class Quarantined:
    """An entry that could not be decoded: its id, why, and since when."""

    entry: str
    reason: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """The scheduler as it can be seen from outside.

    Attributes:
        redis_answers: False when Redis refused or hung; nothing else is known then.
        seen_seconds: since a scheduler last looked, on Redis's clock; None when never.
        late_after_seconds: from what age on it counts as late: three of the shortest intervals.
        clock_skew_seconds: how far the scheduler's clock is ahead of Redis's, or None.
        epoch: the id of this Redis's contents; "" while its loss is not dealt with yet.
        tasks: one per line of the timetable.
        quarantined: at most 50 damaged entries; `quarantined_count` says how many there are.
    """

    redis_answers: bool
    seen_seconds: float | None
    late_after_seconds: float
    clock_skew_seconds: float | None = None
    epoch: str = ""
    tasks: tuple[TaskState, ...] = ()
    quarantined: tuple[Quarantined, ...] = ()
    quarantined_count: int = 0

    @property
    def is_late(self) -> bool:
        """Whether nothing periodic can be relied on: never seen, or not for three intervals."""
        return self.seen_seconds is None or self.seen_seconds > self.late_after_seconds

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of the tasks that are not in the schedule."""
        return tuple(state.task.name for state in self.tasks if not state.is_declared)

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, as sentences for the operator; empty when all is well."""
        if not self.redis_answers:
            return ("Redis does not answer, so nothing periodic runs. Start it; nothing is lost.",)
        found = []
        if self.seen_seconds is None:
            found.append("The scheduler was never seen. Start it: `wireroom scheduler`.")
        elif self.is_late:
            found.append(
                f"The scheduler was last seen {self.seen_seconds:.0f} s ago, so nothing periodic"
                " runs. Start it again: `wireroom scheduler`."
            )
        elif self.missing:
            found.append(
                f"Not in the schedule: {', '.join(self.missing)}."
                " The scheduler declares them again within a minute; else restart it."
            )
        if self.quarantined_count:
            found.append(
                f"{self.quarantined_count} schedule entries cannot be decoded and were put aside;"
                " the others run. See /schedule."
            )
        return tuple(found)


def scheduler_state(connection: Redis, timetable: tuple[Task, ...]) -> SchedulerState:
    """Return what is known now; never raises, never changes anything.

    It takes as long as the connection's socket timeout when Redis hangs: with `redis_connection()`,
    under a second.
    """
    late_after = LATE_INTERVALS * min((task.interval_seconds for task in timetable), default=5.0)
    ids = [template_id(task.name) for task in timetable]
    try:
        with connection.pipeline(transaction=False) as pipe:
            pipe.time()
            pipe.mget(SEEN, EPOCH)
            pipe.hlen(QUARANTINE)
            pipe.hscan(QUARANTINE, count=SHOWN_IN_QUARANTINE)
            if ids:
                pipe.zmscore(SCHEDULE_KEY, ids)
                pipe.hmget(CHILDREN, ids)
            answers: list[Any] = pipe.execute()
    except (RedisError, OSError):
        return SchedulerState(False, None, late_after)  # noqa: FBT003 - the first field says it
    (seconds, microseconds), (seen, epoch), count, (_, quarantined), *entries = answers
    now = seconds + microseconds / 1e6
    note = _read(seen)
    scores, children = entries or ([], [])
    return SchedulerState(
        redis_answers=True,
        seen_seconds=_seen_seconds(note, now),
        late_after_seconds=late_after,
        clock_skew_seconds=_skew(note),
        epoch=_text(epoch),
        tasks=tuple(
            _task_state(task, score, child, now)
            for task, score, child in zip(timetable, scores, children, strict=True)
        ),
        quarantined=_quarantined(quarantined),
        quarantined_count=count,
    )


def _task_state(task: Task, score: float | None, child: bytes | None, now: float) -> TaskState:
    due_at = None if score is None else _moment(score)
    late = 0.0 if score is None else max(0.0, now - score)
    return TaskState(task, due_at, late, _text(child))


def _quarantined(notes: Mapping[bytes, bytes]) -> tuple[Quarantined, ...]:
    shown = []
    for entry, content in list(notes.items())[:SHOWN_IN_QUARANTINE]:
        note = _read(content)
        at = _moment(note["at"]) if "at" in note else None
        shown.append(Quarantined(_text(entry), str(note.get("reason", "")), at))
    return tuple(shown)


def _moment(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _read(content: bytes | None) -> dict[str, Any]:
    try:
        note = json.loads(content or b"{}")
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}


def _text(value: bytes | None) -> str:
    return value.decode(errors="replace") if value else ""


def _seen_seconds(note: Mapping[str, Any], now: float) -> float | None:
    return max(0.0, now - note["redis_time"]) if "redis_time" in note else None


def _skew(note: Mapping[str, Any]) -> float | None:
    if "redis_time" not in note or "process_time" not in note:
        return None
    return float(note["process_time"]) - float(note["redis_time"])
