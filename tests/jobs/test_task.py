"""A run of a periodic task: written down each time, said in the log only when it did something."""

import logging

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session, scoped_session

from dashboard.workers.models import TaskRun, TaskStatus
from jobs.process import application
from jobs.task import task_run


@pytest.fixture(autouse=True)
def process(session: scoped_session[Session]) -> None:
    """Make the process's application before the log is watched: it sets up logging anew."""
    application()


def said(caplog: pytest.LogCaptureFixture) -> list[int]:
    return [one.levelno for one in caplog.records if one.getMessage() == "task done"]


@pytest.mark.parametrize(("found", "level"), [(0, logging.DEBUG), (3, logging.INFO)])
def test_a_run_is_written_down_and_said_when_it_found_something(
    session: scoped_session[Session], caplog: pytest.LogCaptureFixture, found: int, level: int
) -> None:
    caplog.set_level(logging.DEBUG, logger="wireroom.task")
    with task_run("release") as tally:
        tally.found = found
    run = session.scalars(select(TaskRun)).one()
    assert (run.task, run.outcome, run.found) == ("release", "done", found)
    assert run.finished_at is not None
    assert said(caplog) == [level]


def test_a_run_that_fails_is_written_down_said_and_raised(
    session: scoped_session[Session], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="wireroom.task")
    with pytest.raises(ValueError, match="it broke"), task_run("reconcile"):
        raise ValueError("it broke")
    assert session.scalars(select(TaskRun.outcome)).one() == "failed"
    status = session.scalars(select(TaskStatus)).one()
    assert (status.last_error, status.last_success_at) == ("ValueError: it broke", None)
    assert said(caplog) == [logging.INFO]
