"""Due times, and what a line of the timetable must be."""

from datetime import UTC, datetime, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.queueing.timetable import DAY_SECONDS, next_due
from tests.queueing.scheduler_parts import a_task


@given(
    due=st.floats(1.7e9, 1.9e9).map(lambda value: round(value, 3)),
    late=st.floats(0, 1e6),
    interval=st.sampled_from([0.1, 0.5, 5.0, 60.0, 86400.0]),
)
def test_the_next_due_time_is_the_first_of_its_beat_after_now(due, late, interval):
    now = due + late
    following = next_due(due, now, interval=interval)
    assert now < following <= now + interval + 0.002
    beats = (following - due) / interval
    assert abs(beats - round(beats)) * interval < 0.002


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("due", "now", "expected"),
    [
        ("2026-12-01T03:10", "2026-12-01T03:10:01", "2026-12-02T03:10"),
        ("2026-12-01T03:10", "2026-12-04T12:00", "2026-12-05T03:10"),
        ("2026-12-01T02:00", "2026-12-01T02:00", "2026-12-01T03:10"),
        ("2028-02-28T03:10", "2028-02-28T03:10", "2028-02-29T03:10"),
    ],
)
def test_a_daily_task_is_due_at_its_time_of_day_in_utc(due, now, expected):
    result = next_due(moment(due), moment(now), interval=DAY_SECONDS, at=time(3, 10))
    assert result == moment(expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Not a name"},
        {"name": "a--b"},
        {"interval": 0.0},
        {"timeout_seconds": 0},
        {"interval": 5, "at": time(3)},
        {"interval": DAY_SECONDS, "at": time(3, tzinfo=UTC)},
    ],
)
def test_a_line_that_could_not_be_kept_is_refused(wrong):
    with pytest.raises(ValueError, match="Task"):
        a_task(**wrong)


def test_any_change_of_a_line_changes_its_fingerprint():
    changes = [{}, {"interval": 6.0}, {"job": "b.c"}, {"timeout_seconds": 9.0}, {"name": "other"}]
    assert len({a_task(**change).fingerprint for change in changes}) == len(changes)
