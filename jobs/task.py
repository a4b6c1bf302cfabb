"""One run of a periodic task: its row in `task_run`, its result, its last success or failure."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from rq import get_current_job
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError

from dashboard.database import database_now, db
from dashboard.dispatch.repair.round import Tally
from dashboard.workers.models import TaskRun, TaskStatus
from jobs.process import application

logger = logging.getLogger("wireroom.task")


@contextmanager
def task_run(task: str) -> Iterator[Tally]:
    """Run a task in an application context and write down when it ran and what came of it.

    A task that fails is recorded as failed and raises on, so that RQ and Sentry see it as well.
    """
    with application().app_context():
        run = TaskRun(task=task, due_at=_due_at())
        db.session.add(run)
        db.session.commit()
        run_id, tally = run.id, Tally()
        try:
            yield tally
        except BaseException as error:
            db.session.rollback()
            _finish(run_id, tally, error=f"{type(error).__name__}: {error}"[:2000])
            raise
        _finish(run_id, tally)


def _due_at() -> datetime | None:
    """Return when this run was due, as the scheduler wrote it on the job; None by hand."""
    job = get_current_job()
    due = job.meta.get("due_at") if job is not None else None
    return datetime.fromtimestamp(float(due), UTC) if due else None


def _finish(run_id: object, tally: Tally, error: str = "") -> None:
    try:
        _write(run_id, tally, error)
    except SQLAlchemyError:
        db.session.rollback()
        logger.exception("task run not recorded")


def _write(run_id: object, tally: Tally, error: str) -> None:
    run = db.session.get(TaskRun, run_id)
    if run is None:
        return
    now = database_now(db.session)
    run.finished_at = now
    run.outcome = "failed" if error else ("left" if tally.left else "done")
    run.found, run.repaired, run.skipped = tally.found, tally.repaired, tally.skipped
    run.error = error
    values = {"last_failure_at": now, "last_error": error} if error else {"last_success_at": now}
    db.session.execute(
        insert(TaskStatus)
        .values(task=run.task, **values)
        .on_conflict_do_update(index_elements=[TaskStatus.task], set_=values)
    )
    db.session.commit()
    # A run that found nothing is on the page of the schedule; a line every few seconds would hide
    # the lines that matter.
    quiet = run.outcome == "done" and not tally.found
    logger.log(
        logging.DEBUG if quiet else logging.INFO,
        "task done",
        extra={
            "task": run.task,
            "outcome": run.outcome,
            "found": tally.found,
            "repaired": tally.repaired,
            "skipped": tally.skipped,
        },
    )
