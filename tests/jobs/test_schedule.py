"""The scheduler's process as an installation runs it."""

import os
import signal
import subprocess
import sys
import time
from datetime import time as clock_time
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from dashboard.queueing.connection import redis_connection
from dashboard.queueing.scheduler_state import scheduler_state
from dashboard.queueing.timetable import timetable
from jobs.schedule import build_scheduler

ROOT = Path(__file__).parent.parent.parent


def test_the_timetable_has_release_and_reconcile_at_the_intervals_of_the_settings(settings):
    lines = {
        task.name: (task.job, task.queue, task.interval_seconds) for task in timetable(settings)
    }
    assert lines["release"] == ("jobs.release.run", "clock", settings.release_seconds)
    assert lines["reconcile"] == ("jobs.reconcile.run", "maintenance", settings.reconcile_seconds)


@pytest.mark.usefixtures("clean")
def test_a_database_that_is_away_does_not_stop_the_schedule(settings):
    def database_is_away() -> None:
        raise OperationalError("select 1", {}, Exception("away"))

    build_scheduler(settings, database_is_away).tick()
    state = scheduler_state(redis_connection(settings), timetable(settings))
    assert state.problems == ()
    assert state.epoch == "", "to be tried again"


@pytest.mark.usefixtures("clean")
def test_the_process_declares_the_timetable_and_ends_on_sigterm(settings, tmp_path):
    redis = redis_connection(settings)
    environment = {
        **os.environ,
        "REDIS_URL": settings.redis_url,
        "DATABASE_URL": settings.database_url,
        "WIREROOM_DATA_DIR": str(tmp_path),
    }
    command = [sys.executable, "-c", "import jobs.schedule; jobs.schedule.main()"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment)
    try:
        deadline = time.monotonic() + 15
        while not (redis.llen("rq:queue:clock") and redis.llen("rq:queue:maintenance")):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert scheduler_state(redis, timetable(settings)).problems == ()
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(("age", "every"), [(None, 3600), (86400, 3600), (0, 60), (600, 60)])
def test_files_are_cleaned_up_as_often_as_their_age_asks(settings, age, every):
    own = settings.model_copy(update={"attachment_max_age_seconds": age})
    (line,) = [task for task in timetable(own) if task.name == "prune_files"]
    assert line.interval_seconds == every


def test_records_are_pruned_at_ten_past_three_utc(settings):
    (line,) = [task for task in timetable(settings) if task.name == "prune"]
    assert (line.at, line.queue) == (clock_time(3, 10), "maintenance")
