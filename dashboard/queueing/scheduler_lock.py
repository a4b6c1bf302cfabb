"""A lock in Redis that only its holder can extend or release, and that ends by itself.

rq-scheduler's own lock has no owner: a cycle longer than its lease lets a second scheduler in,
whose lock the first one then deletes.
"""

from redis import Redis

_ACQUIRE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0
"""
_EXTEND = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""


class TokenLock:
    """The lock of one holder; a holder that was cut off from Redis finds its own lock again."""

    def __init__(self, connection: Redis, key: str, *, token: str, lease_seconds: float) -> None:
        self._key = key
        self._token = token
        self._lease = round(lease_seconds * 1000)
        self._acquire = connection.register_script(_ACQUIRE)
        self._extend = connection.register_script(_EXTEND)
        self._release = connection.register_script(_RELEASE)

    def acquire(self) -> bool:
        """Take the lock for one lease; False while somebody else has it."""
        return bool(self._acquire(keys=[self._key], args=[self._token, self._lease]))

    def extend(self) -> bool:
        """Begin the lease anew; False when it was lost, and then the holder must stop at once."""
        return bool(self._extend(keys=[self._key], args=[self._token, self._lease]))

    def release(self) -> bool:
        """Give the lock back; False when it had ended already, and then nothing is deleted."""
        return bool(self._release(keys=[self._key], args=[self._token]))
