"""Webhook requests that were not believed: counted per provider and hour, logged once a minute.

The counts live in Redis for two days. While Redis is away nothing is counted, and each process
keeps its own minute for the log.
"""

import logging
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from redis.exceptions import RedisError

from dashboard import clock
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.webhooks")

HOURS_SHOWN = 24
KEPT_SECONDS = 48 * 3600
LOGGED_EVERY_SECONDS = 60
AWAY_SECONDS = 10.0
_PREFIX = "wireroom:refused:"


@dataclass(slots=True)
class _Memory:
    """What this process remembers: when it logged last, and until when Redis counts as away."""

    logged: dict[str, float] = field(default_factory=dict)
    away_until: float = float("-inf")


_memory = _Memory()


def note_refused(provider: str, reason: str, settings: Settings) -> None:
    """Count a refused request, and log at most one a minute for each provider. Never raises."""
    if _count(provider, settings):
        logger.warning("webhook refused", extra={"provider": provider, "reason": reason})


def _count(provider: str, settings: Settings) -> bool:
    """Count it and return whether this one is logged."""
    if clock.monotonic() < _memory.away_until:
        return _is_first_of_minute(provider)
    key = _key(clock.now())
    pipeline = redis_connection(settings).pipeline(transaction=False)
    pipeline.hincrby(key, provider, 1)
    pipeline.expire(key, KEPT_SECONDS)
    pipeline.set(f"{_PREFIX}logged:{provider}", 1, ex=LOGGED_EVERY_SECONDS, nx=True)
    try:
        return bool(pipeline.execute()[2])
    except RedisError:
        # A flood of forged requests must not wait for a Redis that hangs, each anew.
        _memory.away_until = clock.monotonic() + AWAY_SECONDS
        return _is_first_of_minute(provider)


def _is_first_of_minute(provider: str) -> bool:
    now = clock.monotonic()
    if now - _memory.logged.get(provider, float("-inf")) < LOGGED_EVERY_SECONDS:
        return False
    _memory.logged[provider] = now
    return True


def refused_lately(settings: Settings) -> list[tuple[str, int]] | None:
    """Return how many were refused per provider in 24 hours, most first; None without Redis."""
    now = clock.now()
    pipeline = redis_connection(settings).pipeline(transaction=False)
    for hours in range(HOURS_SHOWN + 1):
        pipeline.hgetall(_key(now - timedelta(hours=hours)))
    try:
        counted: list[dict[bytes, bytes]] = pipeline.execute()
    except RedisError:
        return None
    total: Counter[str] = Counter()
    for hour in counted:
        total.update({name.decode(): int(count) for name, count in hour.items()})
    return total.most_common()


def _key(at: datetime) -> str:
    return f"{_PREFIX}{at:%Y%m%d%H}"
