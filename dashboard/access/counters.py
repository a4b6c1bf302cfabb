"""Counters that end by themselves, in Redis; in this process while Redis is away.

What they count is not kept: a Redis that was emptied forgives.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from redis import Redis
from redis.exceptions import RedisError
from typing_extensions import override

from dashboard.clock import monotonic

logger = logging.getLogger("wireroom.access")

R = TypeVar("R")

_PREFIX = "wireroom:sign-in:"
_AWAY_SECONDS = 10.0
_LARGEST = 10_000


class Counters(Protocol):
    """What the throttle needs of a store."""

    def count(self, key: str, seconds: int) -> tuple[int, float]:
        """Add one; return the count and for how many seconds it still stands."""

    def give_back(self, key: str, seconds: int) -> None:
        """Take one off again."""

    def forget(self, key: str) -> None:
        """Drop a count."""

    def take(self, key: str, seconds: float) -> float:
        """Take a slot for so long; return 0, or after how many seconds the taken one is free."""

    def mark(self, key: str, seconds: int) -> None:
        """Remember a key for so long."""

    def is_marked(self, key: str) -> bool:
        """Return whether a key is remembered."""


class RedisCounters(Counters):
    """The counters that all web processes share; raises RedisError."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    @override
    def count(self, key: str, seconds: int) -> tuple[int, float]:
        pipeline = self._redis.pipeline()
        # The start sets the end: EXPIRE … NX came only with Redis 7.
        pipeline.set(_PREFIX + key, 0, ex=seconds, nx=True)
        pipeline.incr(_PREFIX + key)
        pipeline.pttl(_PREFIX + key)
        answers: list[Any] = pipeline.execute()
        return int(answers[1]), int(answers[2]) / 1000

    @override
    def give_back(self, key: str, seconds: int) -> None:
        pipeline = self._redis.pipeline()
        pipeline.set(_PREFIX + key, 1, ex=seconds, nx=True)
        pipeline.decr(_PREFIX + key)
        pipeline.execute()

    @override
    def forget(self, key: str) -> None:
        self._redis.delete(_PREFIX + key)

    @override
    def take(self, key: str, seconds: float) -> float:
        if self._redis.set(_PREFIX + key, 1, px=int(seconds * 1000), nx=True):
            return 0.0
        left: Any = self._redis.pttl(_PREFIX + key)
        return max(int(left) / 1000, 0.001)

    @override
    def mark(self, key: str, seconds: int) -> None:
        self._redis.set(_PREFIX + key, 1, ex=seconds)

    @override
    def is_marked(self, key: str) -> bool:
        return bool(self._redis.exists(_PREFIX + key))


class LocalCounters(Counters):
    """The same in this process alone, bounded."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[int, float]] = {}

    @override
    def count(self, key: str, seconds: int) -> tuple[int, float]:
        return self._add(key, 1, seconds)

    @override
    def give_back(self, key: str, seconds: int) -> None:
        if self.is_marked(key):
            self._add(key, -1, seconds)

    @override
    def forget(self, key: str) -> None:
        with self._lock:
            self._entries.pop(key, None)

    @override
    def take(self, key: str, seconds: float) -> float:
        count, left = self._add(key, 1, seconds)
        return 0.0 if count == 1 else left

    @override
    def mark(self, key: str, seconds: int) -> None:
        self.forget(key)
        self._add(key, 1, seconds)

    @override
    def is_marked(self, key: str) -> bool:
        with self._lock:
            return self._entries.get(key, (0, 0.0))[1] > monotonic()

    def _add(self, key: str, amount: int, seconds: float) -> tuple[int, float]:
        now = monotonic()
        with self._lock:
            count, ends = self._entries.get(key, (0, 0.0))
            if ends <= now:
                count, ends = 0, now + seconds
                self._make_room(now)
            self._entries[key] = (count + amount, ends)
            return count + amount, ends - now

    def _make_room(self, now: float) -> None:
        if len(self._entries) < _LARGEST:
            return
        ended = [key for key, (_, ends) in self._entries.items() if ends <= now]
        for key in ended or list(self._entries)[: _LARGEST // 10]:
            del self._entries[key]


class SteadyCounters(Counters):
    """Redis, and this process for ten seconds each time that Redis does not answer."""

    def __init__(self, redis: Redis) -> None:
        self._shared = RedisCounters(redis)
        self._local = LocalCounters()
        self._away_until = 0.0

    @override
    def count(self, key: str, seconds: int) -> tuple[int, float]:
        return self._ask(lambda store: store.count(key, seconds))

    @override
    def give_back(self, key: str, seconds: int) -> None:
        self._ask(lambda store: store.give_back(key, seconds))

    @override
    def forget(self, key: str) -> None:
        self._ask(lambda store: store.forget(key))

    @override
    def take(self, key: str, seconds: float) -> float:
        return self._ask(lambda store: store.take(key, seconds))

    @override
    def mark(self, key: str, seconds: int) -> None:
        self._ask(lambda store: store.mark(key, seconds))

    @override
    def is_marked(self, key: str) -> bool:
        return self._ask(lambda store: store.is_marked(key))

    def _ask(self, question: Callable[[Counters], R]) -> R:
        if monotonic() >= self._away_until:
            try:
                return question(self._shared)
            except RedisError as error:
                self._away_until = monotonic() + _AWAY_SECONDS
                logger.warning(
                    "sign-in throttle counts in this process, Redis does not answer",
                    extra={"error": type(error).__name__},
                )
        return question(self._local)
