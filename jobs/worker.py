"""DispatchWorker: an RQ worker that forks for no job, says that it lives, and stops in order.

Run it as `wireroom worker default`, or as `rq worker --worker-class jobs.worker.DispatchWorker`.
One queue for each process: two queues use BLPOP, which can drop a job when its worker dies.
"""

import logging
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from types import FrameType
from typing import Any

from redis.exceptions import RedisError
from rq import Queue, SimpleWorker
from rq.exceptions import StopRequested
from rq.job import Job
from rq.timeouts import TimerDeathPenalty
from rq.worker.base import WorkerStatus
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session
from typing_extensions import override

from dashboard import logs
from dashboard.database import db
from dashboard.providers.webhook_secrets import require_secrets
from dashboard.queueing.connection import worker_connection
from dashboard.settings import SettingsInvalid, current
from dashboard.workers.fingerprint import fingerprint
from dashboard.workers.liveness import STAMP_SECONDS, Introduction, register, stamp, stop
from jobs.process import application, sender, worker_name

logger = logging.getLogger("wireroom.worker")

WORKER_TTL_SECONDS = 60
MAINTENANCE_SECONDS = 30


class NoTimeout(TimerDeathPenalty):
    """RQ's job timeouts are off: SIGALRM reaches only the main thread, deadlines are ours."""

    @override
    def setup_death_penalty(self) -> None:
        """Start no timer."""

    @override
    def cancel_death_penalty(self) -> None:
        """Cancel nothing."""


class DispatchWorker(SimpleWorker):
    """Loads the application once, registers in the database, sends in waves."""

    death_penalty_class = NoTimeout

    def __init__(self, queues: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["name"] = worker_name()
        kwargs["worker_ttl"] = WORKER_TTL_SECONDS
        kwargs["maintenance_interval"] = MAINTENANCE_SECONDS
        super().__init__(queues, *args, **kwargs)
        self._pulse = Pulse(self.queue_names())

    @override
    def work(self, *args: Any, **kwargs: Any) -> bool:
        """Register, work until told to stop, write what is known, say goodbye."""
        kwargs["with_scheduler"] = False
        self._pulse.start()
        try:
            return bool(super().work(*args, **kwargs))
        finally:
            with application().app_context():
                sender().close()
            self._pulse.stop()

    @override
    def execute_job(self, job: Job, queue: Queue) -> None:
        """Run a job; where Redis goes away meanwhile, wait for it instead of ending.

        What the job did is in the database. RQ only fails to note that the job ended, and what is
        left of it in Redis runs out.
        """
        try:
            super().execute_job(job, queue)
        except RedisError as error:
            logger.warning(
                "redis did not answer", extra={"worker": self.name, "error": str(error)[:200]}
            )
            while not self._stop_requested and not self._redis_answers():
                time.sleep(1)

    def _redis_answers(self) -> bool:
        try:
            return bool(self.connection.ping())
        except RedisError:
            return False

    @override
    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """Stop in order: no new claims, running calls end, outcomes are written.

        A second signal changes nothing: killing is for the supervisor, after its grace time. RQ's
        own version writes to Redis here; one that is away would raise into the middle of a wave.
        """
        if sender().stopping:
            return
        sender().stopping = True
        self._stop_requested = True
        logger.info("worker stopping", extra={"worker": self.name, "signal": signum})
        if self.get_state() != WorkerStatus.BUSY:
            raise StopRequested

    @override
    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """Do nothing: the first signal was heard."""


class Pulse:
    """A thread that stamps `seen_at` every five seconds, whatever the main thread does.

    It stamps faster where `WORKER_GONE_SECONDS` is so short that a stamp could come too late.
    """

    def __init__(self, queues: Sequence[str]) -> None:
        self._queues = queues
        self._every_seconds = min(STAMP_SECONDS, current().worker_gone_seconds / 6)
        self._is_registered = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pulse", daemon=True)
        self._reported = (0, 0)

    def start(self) -> None:
        """Write what an earlier worker of this host spooled, register, and begin to stamp."""
        with application().app_context():
            sender().recorder.flush()
        self._register()
        logger.info(
            "worker ready",
            extra={"sentry": "off", "queues": ",".join(self._queues), "worker": worker_name()},
        )
        self._thread.start()

    def stop(self) -> None:
        """Write down that this worker ended in order."""
        self._end.set()
        self._in_session(lambda session: stop(session, worker_name()))

    def _register(self) -> None:
        introduction = Introduction(
            name=worker_name(), queues=self._queues, fingerprint=fingerprint(), sentry=False
        )
        self._is_registered = self._in_session(lambda session: register(session, introduction))

    def _run(self) -> None:
        while not self._end.wait(self._every_seconds):
            if not self._is_registered:  # the database was away when this worker started
                self._register()
                continue
            recorder = sender().recorder
            now = (recorder.done, recorder.failed)
            done, failed = now[0] - self._reported[0], now[1] - self._reported[1]
            if self._in_session(partial(stamp, name=worker_name(), done=done, failed=failed)):
                self._reported = now

    def _in_session(self, step: Any) -> bool:
        """Run a step in a transaction of its own; a database that is away is met again later."""
        try:
            with application().app_context(), Session(db.engine) as session, session.begin():
                step(session)
        except SQLAlchemyError as error:
            logger.warning(
                "not stamped", extra={"worker": worker_name(), "error": str(error)[:200]}
            )
            return False
        return True


def main(queues: Sequence[str]) -> int:
    """Run a worker on these queues until it is told to stop; return the exit code."""
    try:
        settings = current()
        require_secrets(settings)
    except SettingsInvalid as error:
        sys.stderr.write(f"{error}\n")
        return 2
    logs.configure(settings)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    worker = DispatchWorker(list(queues), connection=worker_connection(settings))
    worker.work(logging_level=logging.WARNING)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["default"]))
