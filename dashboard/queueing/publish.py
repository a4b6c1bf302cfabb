"""publish(): the only writer to the queues. Called after the commit, never before it."""

import logging
import secrets
from collections.abc import Sequence
from uuid import UUID

from redis.exceptions import RedisError
from rq import Queue as RQQueue

from dashboard.queueing.connection import redis_connection
from dashboard.queueing.names import JobPath
from dashboard.settings import Settings, current

logger = logging.getLogger("wireroom.queueing")

SLICE = 100
RESULT_SECONDS = 0
FAILURE_SECONDS = 24 * 3600


class PublishFailed(Exception):
    """Redis did not take the jobs; the message says why, the rows say what is to be sent."""


def publish(queue: str, dispatch_ids: Sequence[UUID], settings: Settings | None = None) -> None:
    """Put jobs that say "send these" on a queue: one for a single, one per 100 for more.

    The job id starts with the (first) dispatch id, so that one search in the logs finds the story;
    the random tail keeps RQ from ever seeing the same id twice.

    Raises:
        PublishFailed: when Redis refuses, hangs or is full.
    """
    connection = redis_connection(settings or current())
    rq_queue = RQQueue(queue, connection=connection)
    slices = [dispatch_ids[i : i + SLICE] for i in range(0, len(dispatch_ids), SLICE)]
    jobs = [
        RQQueue.prepare_data(
            JobPath.SEND.value,
            args=([str(dispatch_id) for dispatch_id in some],),
            job_id=f"{some[0]}-{len(some)}-{secrets.token_hex(4)}",
            timeout=-1,
            result_ttl=RESULT_SECONDS,
            failure_ttl=FAILURE_SECONDS,
            description="send",
        )
        for some in slices
    ]
    try:
        rq_queue.enqueue_many(jobs)
    except (RedisError, OSError) as error:
        raise PublishFailed(f"{type(error).__name__}: {error}") from error


def publish_task(path: JobPath, queue: str, settings: Settings | None = None) -> None:
    """Put one more run of a periodic task on its queue, besides those of the timetable.

    Raises:
        PublishFailed: when Redis refuses, hangs or is full.
    """
    rq_queue = RQQueue(queue, connection=redis_connection(settings or current()))
    try:
        rq_queue.enqueue(
            path.value, job_timeout=-1, result_ttl=RESULT_SECONDS, failure_ttl=FAILURE_SECONDS
        )
    except (RedisError, OSError) as error:
        raise PublishFailed(f"{type(error).__name__}: {error}") from error


def waiting_jobs(queue: str, settings: Settings | None = None) -> int | None:
    """Return how many jobs wait on a queue, or None when Redis does not answer."""
    try:
        return RQQueue(queue, connection=redis_connection(settings or current())).count
    except (RedisError, OSError):
        return None
