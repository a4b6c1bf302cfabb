"""The throttle: attackers wait, owners do not; in Redis, and in the process while it is away."""

import logging
import time
from collections.abc import Callable

import pytest
from redis import Redis

from dashboard.access.counters import Counters, LocalCounters, RedisCounters, SteadyCounters
from dashboard.access.throttle import Limit, Limits, Throttle, TooManyTries
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings

KEY = "a key of the test"
SMALL = Limits(
    pair=Limit(3, 60),
    address=Limit(6, 60),
    account=Limit(5, 60),
    everything=Limit(20, 60),
    turn_seconds=0.2,
)


@pytest.fixture(params=["redis", "process", "redis away"])
def counters(request: pytest.FixtureRequest, settings: Settings, clean: None) -> Counters:
    if request.param == "redis":
        return RedisCounters(redis_connection(settings))
    if request.param == "process":
        return LocalCounters()
    return SteadyCounters(Redis(port=1, socket_connect_timeout=0.2))


@pytest.fixture
def throttle(counters: Counters) -> Throttle:
    return Throttle(counters, KEY, SMALL)


def waits(act: Callable[[], None]) -> int:
    """How many seconds it has to wait; 0 if not at all."""
    try:
        act()
    except TooManyTries as wait:
        return wait.retry_after
    return 0


def test_one_address_at_one_account_waits_until_the_window_ends(throttle: Throttle) -> None:
    answers = [waits(lambda: throttle.begin("ada", "192.0.2.1")) for _ in range(6)]

    assert answers[:3] == [0, 0, 0]
    assert all(50 < answer <= 61 for answer in answers[3:])
    assert waits(lambda: throttle.begin("ada", "198.51.100.7")) == 0


def test_one_address_at_many_accounts_waits_too(throttle: Throttle) -> None:
    answers = [waits(lambda n=n: throttle.begin(f"u{n}", "192.0.2.1")) for n in range(8)]

    assert [bool(answer) for answer in answers] == [False] * 6 + [True] * 2


def test_many_addresses_at_one_account_take_turns(throttle: Throttle) -> None:
    answers = [waits(lambda n=n: throttle.begin("ada", f"192.0.2.{n}")) for n in range(12)]

    assert answers[:6] == [0] * 6  # five, and the first turn
    assert set(answers[6:]) == {1}
    time.sleep(0.25)
    assert waits(lambda: throttle.begin("ada", "198.51.100.7")) == 0


def test_an_address_that_the_owner_used_before_never_takes_turns(throttle: Throttle) -> None:
    throttle.begin("ada", "198.51.100.7")
    throttle.succeed("ada", "198.51.100.7")
    for number in range(30):
        waits(lambda n=number: throttle.begin("ada", f"192.0.2.{n}"))

    assert waits(lambda: throttle.begin("ada", "198.51.100.7")) == 0


def test_right_passwords_count_for_nothing(throttle: Throttle) -> None:
    for number in range(15):
        throttle.begin(f"u{number}", "192.0.2.1")
        throttle.succeed(f"u{number}", "192.0.2.1")
    for _ in range(8):
        throttle.begin("ada", "192.0.2.1")
        throttle.succeed("ada", "192.0.2.1")


def test_an_attacker_with_a_whole_ipv6_network_is_one_address(throttle: Throttle) -> None:
    answers = [waits(lambda n=n: throttle.begin("ada", f"2001:db8::{n:x}")) for n in range(5)]

    assert [bool(answer) for answer in answers] == [False] * 3 + [True] * 2
    assert waits(lambda: throttle.begin("ada", "2001:db8:0:1::1")) == 0


def test_a_mapped_address_is_the_address(throttle: Throttle) -> None:
    for _ in range(3):
        throttle.begin("ada", "192.0.2.1")
    assert waits(lambda: throttle.begin("ada", "::ffff:192.0.2.1"))


def test_a_lock_out_is_one_line_without_account_or_address(
    throttle: Throttle, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "wireroom.access"):
        for _ in range(9):
            waits(lambda: throttle.begin("ada@example.com", "192.0.2.1"))

    lines = [record for record in caplog.records if record.message == "sign-in locked"]
    assert len(lines) == 1
    assert vars(lines[0])["bucket"] == "pair"
    assert "ada" not in str(vars(lines[0]))
    assert "192.0.2.1" not in str(vars(lines[0]))


def test_redis_holds_neither_account_nor_address(settings: Settings, clean: None) -> None:
    redis = redis_connection(settings)
    throttle = Throttle(RedisCounters(redis), KEY, SMALL)
    throttle.begin("ada@example.com", "192.0.2.1")
    throttle.succeed("ada@example.com", "192.0.2.1")

    keys = [key.decode() for key in redis.keys("wireroom:sign-in:*")]
    assert keys
    assert not any("ada" in key or "192" in key for key in keys)
    assert all(redis.ttl(key) > 0 for key in keys)


def test_the_memory_of_the_process_is_bounded() -> None:
    counters = LocalCounters()
    for number in range(25_000):
        counters.count(str(number), 60)

    assert len(counters._entries) <= 10_000
