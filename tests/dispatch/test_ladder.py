"""When a transient failure is tried again."""

from datetime import timedelta

import pytest

from dashboard.dispatch.ladder import CAP_SECONDS, MAXIMUM_TRIES, has_tries_left, pause


@pytest.mark.parametrize(
    ("tries", "seconds"),
    [(1, 16), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 600), (12, 600), (900, 600)],
)
def test_the_pause_doubles_up_to_ten_minutes(tries: int, seconds: int) -> None:
    assert pause(tries, base_seconds=16, luck=0.5) == timedelta(seconds=seconds)


def test_luck_spreads_the_pause_by_a_fifth_either_way() -> None:
    assert pause(7, base_seconds=16, luck=0) == timedelta(seconds=CAP_SECONDS * 0.8)
    assert pause(7, base_seconds=16, luck=1) == timedelta(seconds=CAP_SECONDS * 1.2)


def test_the_provider_is_never_asked_earlier_than_it_wants() -> None:
    assert pause(1, base_seconds=16, luck=0, retry_after_seconds=300) == timedelta(seconds=300)
    assert pause(1, base_seconds=16, luck=0.5, retry_after_seconds=3) == timedelta(seconds=16)


def test_there_are_twelve_tries() -> None:
    assert [has_tries_left(tries) for tries in (1, 11, 12, 13)] == [True, True, False, False]
    assert MAXIMUM_TRIES == 12
