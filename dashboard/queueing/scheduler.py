"""The scheduler process: rq-scheduler's Scheduler, hardened so that nothing stops or empties it.

What differs from the original: a lock with an owner; an entry that cannot be decoded goes to
quarantine instead of ending the process; each tick enqueues a job of its own and then advances the
entry by compare-and-set, never by removing it; Redis may go away and come back; the timetable is
declared again every minute. Two may run at once. All due times are on Redis's clock.
"""

import json
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError
from rq.exceptions import DeserializationError, DuplicateJobError, NoSuchJobError
from rq_scheduler import Scheduler
from typing_extensions import override

from dashboard.clock import monotonic, now
from dashboard.queueing.scheduler_declaration import Declaration, Epoch, quarantine_note
from dashboard.queueing.scheduler_entry import Entry, read_entry, still_runs
from dashboard.queueing.scheduler_keys import CHILDREN, QUARANTINE, SEEN, alive_key
from dashboard.queueing.scheduler_lock import TokenLock
from dashboard.queueing.scheduler_scripts import ADVANCE_SCRIPT, QUARANTINE_SCRIPT
from dashboard.queueing.timetable import Task

logger = logging.getLogger("wireroom.scheduler")

ALIVE_SECONDS = 10
LEASE_SECONDS = 5.0
DECLARE_SECONDS = 60.0
REPAIR_SECONDS = 5.0
LONGEST_BACKOFF_SECONDS = 2.0
ENTRIES_PER_TICK = 100

# What reading or copying a damaged entry raises; RQ wraps whatever its serializer raises.
_DAMAGE = (
    DeserializationError,
    NoSuchJobError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
)


def nothing_to_tell() -> None:
    """Do nothing when Redis was emptied."""


class HardenedScheduler(Scheduler):  # type: ignore[misc]  # rq-scheduler has no types
    """The scheduler of a timetable.

    Args:
        connection: Redis with socket timeouts; without them a Redis that hangs would stop it.
        timetable: what is to be declared; entries of other applications are kept as they are.
        on_epoch_lost: called when Redis was emptied, until it succeeds; it commits for itself.
        epoch_errors: what it may raise to be called again; anything else ends the process.
        interval: seconds between two looks at the schedule.
    """

    def __init__(
        self,
        connection: Redis,
        timetable: Iterable[Task],
        *,
        on_epoch_lost: Callable[[], None] = nothing_to_tell,
        epoch_errors: tuple[type[Exception], ...] = (OSError,),
        interval: float = 1.0,
    ) -> None:
        super().__init__(connection=connection, interval=interval)
        self._lock = TokenLock(
            connection, self.scheduler_lock_key, token=self.name, lease_seconds=LEASE_SECONDS
        )
        self._declaration = Declaration(connection, timetable, schedule_key=self.scheduled_jobs_key)
        self._epoch = Epoch(connection, on_epoch_lost, epoch_errors)
        self._advance = connection.register_script(ADVANCE_SCRIPT)
        self._put_aside = connection.register_script(QUARANTINE_SCRIPT)
        self._started_at = now().timestamp()
        self._declare_at = self._declared_at = self._epoch_at = 0.0
        self._now = 0.0
        self._stopping = False
        self._failures = 0

    @override
    def run(self, burst: bool = False) -> None:
        """Keep the schedule until SIGTERM or SIGINT; `burst` looks once. Redis may come and go."""
        self._install_signal_handlers()
        logger.info("scheduler started", extra={"scheduler": self.name})
        while not self._stopping:
            began = monotonic()
            pause = self._look()
            if burst:
                break
            self._sleep_until(began + pause)
        self.register_death()
        logger.info("scheduler stopped", extra={"scheduler": self.name})

    def _look(self) -> float:
        """Do one tick and return how long to wait from its beginning, in seconds."""
        try:
            self.tick()
        except (RedisError, OSError) as error:
            self._failures += 1
            if self._failures == 1:
                logger.error(
                    "redis does not answer the scheduler; nothing periodic runs until it does",
                    extra={"error": type(error).__name__},
                )
            # From the look's beginning: one that timed out has waited already.
            return min(
                LONGEST_BACKOFF_SECONDS, float(self._interval) * 2.0 ** min(self._failures, 5)
            )
        if self._failures:
            logger.info("redis answers the scheduler again", extra={"failures": self._failures})
            self._failures = 0
        return float(self._interval)

    def _sleep_until(self, moment: float) -> None:
        # In slices: a signal handler may only set a flag; this thread could hold an Event's lock.
        while not self._stopping and (left := moment - monotonic()) > 0:
            time.sleep(min(left, 0.1))

    def tick(self) -> None:
        """Say "alive" and, unless another scheduler is at it, declare and enqueue what is due.

        Raises:
            RedisError: nothing is lost; the same tick is done again by whoever comes next.
        """
        seconds, microseconds = self.connection.time()
        self._now = seconds + microseconds / 1e6
        self.heartbeat()
        if not self._lock.acquire():
            return
        try:
            self._keep_declared()
            self.enqueue_jobs()
        finally:
            self._lock.release()

    @override
    def heartbeat(self) -> None:
        """Write that this process is alive, with both clocks, for pages and health checks."""
        note = json.dumps(
            {
                "id": self.name,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "started_at": self._started_at,
                "process_time": now().timestamp(),
                "redis_time": self._now,
            }
        )
        with self.connection.pipeline(transaction=False) as pipe:
            pipe.set(alive_key(self.name), note, ex=ALIVE_SECONDS)
            pipe.set(SEEN, note)
            pipe.hset(self.key, "birth", self._started_at)  # where rq-scheduler's own tools look
            pipe.expire(self.key, ALIVE_SECONDS)
            pipe.execute()

    @override
    def register_death(self) -> None:
        """Remove what says that this process is alive; a Redis that is away forgets it."""
        try:
            self._lock.release()
            self.connection.delete(alive_key(self.name), self.key)
        except (RedisError, OSError) as error:
            logger.info("scheduler stopped without redis", extra={"error": type(error).__name__})

    @override
    def _install_signal_handlers(self) -> None:
        def stop(_signal: int, _frame: FrameType | None) -> None:
            self._stopping = True

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)

    def _keep_declared(self) -> None:
        lost = self._epoch.is_lost()
        if lost or monotonic() >= self._declare_at:
            self._declaration.declare(self._now)
            self._declared_at = monotonic()
            self._declare_at = self._declared_at + DECLARE_SECONDS
        # After the declaration, so that periodic tasks run even while the database is away.
        if lost and monotonic() >= self._epoch_at and not self._epoch.begin():
            self._epoch_at = monotonic() + min(30.0, 2.0 ** min(self._epoch.failures, 5) / 2)

    @override
    def enqueue_jobs(self) -> None:
        """Do every tick that is due, at most 100 entries, oldest first."""
        due = self.connection.zrangebyscore(
            self.scheduled_jobs_key,
            "-inf",
            self._now,
            start=0,
            num=ENTRIES_PER_TICK,
            withscores=True,
        )
        for member, score in due:
            if self._stopping or not self._lock.extend():
                return
            self._do(member, score)

    def _do(self, member: bytes, score: float) -> None:
        try:
            self._enqueue_entry(read_entry(self.connection, member.decode(), score))
        except ResponseError as error:
            if "WRONGTYPE" not in str(error):  # out of memory, read-only: Redis's trouble, not its
                raise
            self._quarantine(member, error)
        except _DAMAGE as error:
            self._quarantine(member, error)

    def _quarantine(self, member: bytes, error: Exception) -> None:
        """Take a damaged entry out of the schedule, keeping its id, its job and the reason."""
        reason = f"{type(error).__name__}: {error.__cause__ or error}"
        self._put_aside(
            keys=[self.scheduled_jobs_key, QUARANTINE, CHILDREN],
            args=[member, quarantine_note(reason, self._now)],
        )
        entry_id = member.decode(errors="replace")
        logger.error(
            "schedule entry put in quarantine: it cannot be decoded; the others go on",
            extra={"entry": entry_id[:200], "error": type(error).__name__},
        )
        if self._declaration.owns(entry_id):  # soon, yet not in a loop that floods the log
            self._declare_at = min(self._declare_at, self._declared_at + REPAIR_SECONDS)

    def _enqueue_entry(self, entry: Entry) -> None:
        if not entry.is_periodic:
            self._enqueue_once(entry)
            return
        template = entry.template
        previous = self.connection.hget(CHILDREN, template.id)
        if previous and still_runs(
            self.connection,
            previous.decode(),
            bound_seconds=entry.overlap_seconds,
            now=self._now,
        ):
            logger.info("tick left out: the last one still runs", extra={"task": template.id})
            self._move_on(entry, child="")
            return
        child = entry.child()
        try:
            self.get_queue_for_job(template).enqueue_job(
                child, at_front=bool(template.enqueue_at_front), unique=True
            )
        except DuplicateJobError:
            logger.info("tick was enqueued already", extra={"task": template.id})
        self._move_on(entry, child=child.id)

    def _enqueue_once(self, entry: Entry) -> None:
        """Enqueue an entry that is due only once, and remove it, in one transaction."""
        with self.connection.pipeline() as pipe:
            self.get_queue_for_job(entry.template).enqueue_job(
                entry.template, pipeline=pipe, at_front=bool(entry.template.enqueue_at_front)
            )
            pipe.zrem(self.scheduled_jobs_key, entry.template.id)
            pipe.execute()

    def _move_on(self, entry: Entry, *, child: str) -> None:
        """Advance an entry to its next due time, unless somebody did; no child: left out."""
        following = entry.next_due(self._now) if child else entry.skipped_due(self._now)
        meta: Any = ""
        if child and entry.repeats_left is not None:
            changed = {**entry.template.meta, "repeat": entry.repeats_left}
            meta = entry.template.serializer.dumps(changed)
        self._advance(
            keys=[self.scheduled_jobs_key, CHILDREN, entry.template.key],
            args=[
                entry.template.id,
                repr(entry.due),
                "" if following is None else repr(following),
                child,
                meta,
            ],
        )
