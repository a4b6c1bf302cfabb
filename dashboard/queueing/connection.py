"""Connections to Redis: bounded, so that a Redis that hangs costs a request under two seconds."""

from functools import lru_cache

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from dashboard.settings import Settings

PUBLISH_TIMEOUT_SECONDS = 0.8


@lru_cache(maxsize=8)
def _connect(url: str, timeout: float | None) -> Redis:
    return Redis.from_url(
        url,
        socket_timeout=timeout,
        socket_connect_timeout=PUBLISH_TIMEOUT_SECONDS,
        retry=Retry(NoBackoff(), 0),
        health_check_interval=30,
    )


def redis_connection(settings: Settings) -> Redis:
    """Return this process's connection pool for short calls: publish, look at a queue."""
    return _connect(settings.redis_url, PUBLISH_TIMEOUT_SECONDS)


def worker_connection(settings: Settings) -> Redis:
    """Return a worker's connection: RQ itself sets how long it waits for a job."""
    return Redis.from_url(settings.redis_url, socket_connect_timeout=5, health_check_interval=30)
