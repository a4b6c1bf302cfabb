"""Brings the schedule in Redis in line with the timetable, and knows when Redis was emptied.

Only repairs: an entry that is as declared is not touched, so restarts neither starve nor double a
task. Runs under the scheduler's lock.
"""

import json
import logging
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from redis import Redis
from rq.job import Job, JobStatus

from dashboard.queueing.scheduler_keys import (
    CHILDREN,
    DECLARED,
    EPOCH,
    EPOCH_PENDING,
    QUARANTINE,
    due_of_child,
    template_id,
)
from dashboard.queueing.scheduler_scripts import BEGIN_EPOCH_SCRIPT
from dashboard.queueing.timetable import Task, next_due

logger = logging.getLogger("wireroom.scheduler")

SLACK_SECONDS = 1.0
_CALL_ATTEMPTS_LOGGED = 5


class Declaration:
    """The timetable as it should stand in Redis."""

    def __init__(self, connection: Redis, timetable: Iterable[Task], *, schedule_key: str) -> None:
        self._connection = connection
        self._tasks = {template_id(task.name): task for task in timetable}
        self._schedule_key = schedule_key

    def owns(self, entry_id: str) -> bool:
        """Return whether an entry is one of the timetable's."""
        return entry_id in self._tasks

    def declare(self, now: float) -> list[str]:
        """Add what is missing, change what was changed, remove what the timetable no longer has.

        Args:
            now: seconds since 1970 on Redis's clock.

        Returns:
            The ids that were touched.
        """
        stored: Any = self._connection.hgetall(DECLARED)
        declared = {key.decode(): value.decode() for key, value in stored.items()}
        touched = [
            entry_id
            for entry_id, task in self._tasks.items()
            if self._declare_one(entry_id, task, declared.get(entry_id), now=now)
        ]
        unknown = [entry_id for entry_id in declared if entry_id not in self._tasks]
        for entry_id in unknown:
            self._remove(entry_id)
        return touched + unknown

    def _declare_one(self, entry_id: str, task: Task, declared: str | None, *, now: float) -> bool:
        with self._connection.pipeline(transaction=False) as pipe:
            pipe.zscore(self._schedule_key, entry_id)
            pipe.exists(Job.key_for(entry_id))
            pipe.hget(CHILDREN, entry_id)
            score, exists, child = pipe.execute()
        due = _due(task, score, child, now=now, changed=declared != task.fingerprint)
        if score == due and exists and declared == task.fingerprint:
            return False
        with self._connection.pipeline() as pipe:  # one MULTI: a kill leaves all of it or nothing
            pipe.delete(Job.key_for(entry_id))
            self._template(entry_id, task).save(pipeline=pipe)
            pipe.zadd(self._schedule_key, {entry_id: due})
            pipe.hset(DECLARED, entry_id, task.fingerprint)
            pipe.hdel(QUARANTINE, entry_id)
            pipe.execute()
        logger.info("task declared", extra={"task": task.name, "queue": task.queue.value})
        return True

    def _template(self, entry_id: str, task: Task) -> Job:
        return Job.create(
            str(task.job),
            id=entry_id,
            connection=self._connection,
            origin=task.queue.value,
            timeout=-1,  # our workers keep their own deadlines; RQ's alarm reaches one thread only
            result_ttl=-1,
            description=task.description,
            status=JobStatus.SCHEDULED,
            meta={
                "task": task.name,
                "interval": task.interval_seconds,
                "at": task.at.isoformat() if task.at else None,
                "overlap_seconds": task.timeout_seconds,
            },
        )

    def _remove(self, entry_id: str) -> None:
        with self._connection.pipeline() as pipe:
            pipe.zrem(self._schedule_key, entry_id)
            pipe.delete(Job.key_for(entry_id))
            pipe.hdel(CHILDREN, entry_id)
            pipe.hdel(DECLARED, entry_id)
            pipe.hdel(QUARANTINE, entry_id)
            pipe.execute()
        logger.info("task removed from the schedule", extra={"task": entry_id})


def _due(
    task: Task, score: float | None, child: bytes | None, *, now: float, changed: bool
) -> float:
    """Return when an entry should be due: where it stands if that can be right, else soon.

    A score further away than one interval comes from a wrong clock or from a longer interval.
    """
    following = next_due(now, now, interval=task.interval_seconds, at=task.at)
    if score is not None and (score <= now or not (changed and task.at)):
        return min(score, following) if score > following + SLACK_SECONDS else score
    if score is None:
        return _after_last_run(task, child, now)
    return following


def _after_last_run(task: Task, child: bytes | None, now: float) -> float:
    """Return now, unless a run is known since which its interval has not passed."""
    if child is None:
        return now
    try:
        last = due_of_child(child.decode())
    except ValueError:
        return now
    following = next_due(last, last, interval=task.interval_seconds, at=task.at)
    return following if last <= now and following > now else now


class Epoch:
    """Knows whether this is the Redis that was there before, by a random key nobody deletes."""

    def __init__(
        self,
        connection: Redis,
        on_lost: Callable[[], None],
        errors: tuple[type[Exception], ...],
    ) -> None:
        self._connection = connection
        self._on_lost = on_lost
        self._errors = errors
        self._begin = connection.register_script(BEGIN_EPOCH_SCRIPT)
        self._failures = 0

    @property
    def failures(self) -> int:
        """How often the call-back failed in a row; 0 once it went through."""
        return self._failures

    def is_lost(self) -> bool:
        """Return whether Redis was emptied (or is new) and nobody has dealt with it yet."""
        return not self._connection.exists(EPOCH)

    def begin(self) -> bool:
        """Call back, and only when that succeeded begin a new epoch; False: to be tried again.

        A Redis that is emptied once more while the call-back runs counts as lost again.
        """
        token = secrets.token_hex(8)
        self._connection.set(EPOCH_PENDING, token)
        try:
            self._on_lost()
        except self._errors as error:
            self._failures += 1
            if self._failures <= _CALL_ATTEMPTS_LOGGED:
                logger.error(
                    "redis was emptied and waiting dispatches could not be marked for publishing;"
                    " tried again until it works",
                    extra={"error": type(error).__name__},
                )
            return False
        self._failures = 0
        begun: Any = self._begin(keys=[EPOCH, EPOCH_PENDING], args=[token])
        if begun:
            logger.warning(
                "redis is new or was emptied: timetable declared, waiting dispatches are published",
                extra={"epoch": token},
            )
        return bool(begun)


def quarantine_note(reason: str, now: float) -> str:
    """Return what is kept about an entry that was taken out of the schedule."""
    return json.dumps({"reason": reason[:300], "at": now})
