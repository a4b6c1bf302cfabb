"""The timetable: which job runs when, on which queue, as one table.

Only says so: `scheduler_declaration` writes it into Redis, `scheduler` makes it happen.
"""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta

from dashboard.queueing.names import JobPath, Queue
from dashboard.settings import Settings

DAY_SECONDS = 24 * 3600.0
SHORTEST_INTERVAL_SECONDS = 0.1

_NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One line of the timetable.

    Attributes:
        name: what pages and logs call it; lower-case letters, digits and underscores.
        job: the import path of its function, which is called without arguments.
        queue: the queue its jobs go on.
        interval_seconds: from one due time to the next, at least 0.1; a day where `at` is given.
        timeout_seconds: how long a started run holds back the next one; the job keeps to less.
        description: what it does, in words, for the page.
        at: the time of day, in UTC, of a task that runs once a day.
    """

    name: str
    job: str
    queue: Queue
    timeout_seconds: float
    description: str
    interval_seconds: float = DAY_SECONDS
    at: time | None = None

    def __post_init__(self) -> None:
        """Refuse a line that could not be kept; raises ValueError with its name."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"Task name {self.name!r} must be lower-case letters, digits, '_'.")
        if self.interval_seconds < SHORTEST_INTERVAL_SECONDS or self.timeout_seconds <= 0:
            raise ValueError(f"Task {self.name} needs an interval of 0.1 s and a timeout over 0 s.")
        if self.at is not None and (self.at.tzinfo or self.interval_seconds != DAY_SECONDS):
            raise ValueError(f"Task {self.name} has `at`: a time without zone (it is UTC), daily.")

    @property
    def fingerprint(self) -> str:
        """A hash that changes when anything about the task does."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def next_due(due: float, now: float, *, interval: float, at: time | None = None) -> float:
    """Return the first due time after `now`, in seconds since 1970.

    It keeps to the beat of `due`: late polling adds up to no drift, and missed ticks count once.
    """
    if at is not None:
        return _next_time_of_day(max(due, now), at)
    missed = max(0, int((now - due) // interval))
    following = due + (missed + 1) * interval
    # Where rounding of floats lands exactly on now, one more keeps the result after it.
    return round(following if following > now else following + interval, 3)


def _next_time_of_day(after: float, at: time) -> float:
    moment = datetime.fromtimestamp(after, UTC)
    candidate = datetime.combine(moment.date(), at, tzinfo=UTC)
    if candidate <= moment:
        candidate += timedelta(days=1)
    return candidate.timestamp()


def timetable(settings: Settings) -> tuple[Task, ...]:
    """Return every periodic task of Wireroom."""
    return (
        Task(
            name="release",
            job=JobPath.RELEASE,
            queue=Queue.CLOCK,
            interval_seconds=settings.release_seconds,
            timeout_seconds=30,
            description="Publishes what is due and not on a queue.",
        ),
        Task(
            name="match_reports",
            job=JobPath.MATCH_REPORTS,
            queue=Queue.CLOCK,
            interval_seconds=settings.match_seconds,
            timeout_seconds=30,
            description="Applies reports that came too early or met a locked dispatch.",
        ),
        Task(
            name="poll_reports",
            job=JobPath.POLL_REPORTS,
            queue=Queue.MAINTENANCE,
            interval_seconds=settings.poll_seconds,
            timeout_seconds=60,
            description="Asks providers about what awaits a report, and about doubtful ones.",
        ),
        Task(
            name="reconcile",
            job=JobPath.RECONCILE,
            queue=Queue.MAINTENANCE,
            interval_seconds=settings.reconcile_seconds,
            timeout_seconds=60,
            description="Finds and repairs stalled, overdue and doubtful dispatches.",
        ),
        *_cleanups(settings),
    )


def _cleanups(settings: Settings) -> tuple[Task, ...]:
    return (
        Task(
            name="prune",
            job=JobPath.PRUNE,
            queue=Queue.MAINTENANCE,
            at=time(3, 10),
            timeout_seconds=60,
            description="Deletes bodies, dispatches and records that are kept no longer.",
        ),
        Task(
            name="prune_files",
            job=JobPath.PRUNE_FILES,
            queue=Queue.MAINTENANCE,
            interval_seconds=_files_seconds(settings),
            timeout_seconds=60,
            description="Deletes files that every dispatch which carries them is done with.",
        ),
    )


def _files_seconds(settings: Settings) -> float:
    """Return how often files are cleaned up: hourly, or each minute where they go sooner."""
    age = settings.attachment_max_age_seconds
    return 3600 if age is None or age >= 3600 else 60
