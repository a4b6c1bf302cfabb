"""How often a password may be tried: per account and address, per address, per account, in all.

Nobody can lock an owner out from elsewhere: a lock-out holds for one account from one address, and
what an attack on one account from many addresses brings is a short wait, which addresses that the
owner signed in from before do not have. Stores neither addresses nor accounts, only keyed hashes.
"""

import hashlib
import hmac
import ipaddress
import logging
from dataclasses import dataclass

from dashboard.access.counters import Counters

logger = logging.getLogger("wireroom.access")


@dataclass(frozen=True, slots=True)
class Limit:
    """So many wrong passwords in so many seconds."""

    tries: int
    seconds: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What the throttle goes by.

    Attributes:
        pair: for one account from one address; then that address waits until the window ends.
        address: for one address, whatever the account.
        account: for one account from all addresses; then unfamiliar ones take turns.
        everything: for all accounts; then unfamiliar addresses take turns.
        turn_seconds: the ceiling of that wait: one try each.
    """

    pair: Limit = Limit(10, 900)
    address: Limit = Limit(50, 900)
    account: Limit = Limit(50, 900)
    everything: Limit = Limit(500, 300)
    turn_seconds: float = 5.0


FAMILIAR_SECONDS = 30 * 24 * 3600


class TooManyTries(Exception):
    """Try again in `retry_after` seconds (429)."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"Too many tries. Try again in {int(retry_after) + 1} s.")
        self.retry_after = int(retry_after) + 1


class Throttle:
    """Counts each try before its password is looked at, and takes it back when it was right."""

    def __init__(self, counters: Counters, key: str, limits: Limits | None = None) -> None:
        self._counters = counters
        self._key = key.encode()
        self._limits = limits or Limits()

    def begin(self, account: str, address: str) -> None:
        """Count a try.

        Args:
            account: the normalised email that was typed, whether or not it is anybody's.
            address: of the real peer, never of a header that a client can write.

        Raises:
            TooManyTries: when it has to wait; the password is not looked at then.
        """
        who, where = self._names(account, address)
        self._count(f"pair:{who}:{where}", self._limits.pair, who)
        if self._counters.is_marked(f"familiar:{who}:{where}"):
            return
        self._count(f"address:{where}", self._limits.address, who)
        self._take_turns(f"account:{who}", self._limits.account, who)
        self._take_turns("everything", self._limits.everything, who)

    def succeed(self, account: str, address: str) -> None:
        """Take the try back, and remember that the account is used from this address."""
        who, where = self._names(account, address)
        familiar = f"familiar:{who}:{where}"
        if not self._counters.is_marked(familiar):
            for key, limit in (
                (f"address:{where}", self._limits.address),
                (f"account:{who}", self._limits.account),
                ("everything", self._limits.everything),
            ):
                self._counters.give_back(key, limit.seconds)
        self._counters.forget(f"pair:{who}:{where}")
        self._counters.mark(familiar, FAMILIAR_SECONDS)

    def _count(self, key: str, limit: Limit, who: str) -> None:
        count, left = self._counters.count(key, limit.seconds)
        self._tell(key, count, limit, who)
        if count > limit.tries:
            raise TooManyTries(left)

    def _take_turns(self, key: str, limit: Limit, who: str) -> None:
        count, _ = self._counters.count(key, limit.seconds)
        self._tell(key, count, limit, who)
        if count <= limit.tries:
            return
        left = self._counters.take(f"turn:{key}", self._limits.turn_seconds)
        if left:
            raise TooManyTries(left)

    def _tell(self, key: str, count: int, limit: Limit, who: str) -> None:
        if count == limit.tries + 1:
            logger.warning(
                "sign-in locked",
                extra={
                    "bucket": key.partition(":")[0],
                    "account_hash": who[:8],
                    "tries": limit.tries,
                    "window_seconds": limit.seconds,
                },
            )

    def _names(self, account: str, address: str) -> tuple[str, str]:
        return self._hashed(account), self._hashed(_network(address))

    def _hashed(self, text: str) -> str:
        digest = hmac.new(self._key, text.encode("utf-8", "replace"), hashlib.sha256)
        return digest.hexdigest()[:32]


def _network(address: str) -> str:
    """Return the address, or its /64: whoever has one IPv6 address has all of those."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))
