"""How values look on a page."""

from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask

from dashboard import clock
from dashboard.pages import presentation


@pytest.mark.parametrize(
    ("octets", "written"),
    [
        (0, "0\u00a0B"),
        (999, "999\u00a0B"),
        (184_000, "184\u00a0kB"),
        (5e6, "5\u00a0MB"),
        (2.5e9, "2.5\u00a0GB"),
    ],
)
def test_sizes_read_as_people_say_them(octets: float, written: str) -> None:
    assert presentation.size(int(octets)) == written


def test_a_moment_is_never_mistaken_for_another_day(app: Flask) -> None:
    with app.test_request_context():
        now = clock.now()
        assert presentation.brief(now).count(":") == 2
        assert presentation.brief(now - timedelta(days=400)).count(str(now.year - 1)) <= 1
        last_year = datetime(now.year - 1, 3, 5, 9, 7, tzinfo=UTC)
        assert presentation.brief(last_year) == f"5 Mar {now.year - 1}, 09:07"


def test_exact_times_name_their_zone(app: Flask) -> None:
    at = datetime(2026, 7, 1, 12, 0, 0, tzinfo=UTC)
    with app.test_request_context(headers={"Cookie": "tz=America%2FSantiago"}):
        assert presentation.exact(at) == "1 July 2026, 08:00:00 -04"
    with app.test_request_context():
        assert presentation.exact(at) == "1 July 2026, 12:00:00 UTC"
        assert presentation.iso(at) == "2026-07-01T12:00:00.000+00:00"


def test_commands_in_a_sentence_are_marked_and_the_rest_is_inert() -> None:
    marked = presentation.commands("Start `wireroom <x>` & look.")
    assert str(marked) == "Start <code>wireroom &lt;x&gt;</code> &amp; look."
