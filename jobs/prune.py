"""The periodic tasks that delete what is kept no longer: bodies, dispatches, files, old runs."""

import logging

from dashboard.access.retention import prune_access
from dashboard.database import db
from dashboard.dispatch.repair.round import Tally
from dashboard.dispatch.retention import dispatches, files
from dashboard.dispatch.retention.slices import begin
from dashboard.queueing.names import JobPath, Queue
from dashboard.queueing.publish import PublishFailed, publish_task
from dashboard.settings import current
from dashboard.workers.retention import prune_machinery
from jobs.task import task_run

logger = logging.getLogger("wireroom.task")


def run() -> None:
    """Delete what the retention settings have outlived, bodies before dispatches."""
    with task_run("prune") as tally:
        this = begin(db.session, current(), tally)
        dispatches.prune_bodies(db.session, this)
        dispatches.prune_dispatches(db.session, this)
        dispatches.prune_reports(db.session, this)
        dispatches.prune_idempotency(db.session, this)
        files.prune_orphans(db.session, this)
        prune_machinery(db.session, this.now)
        prune_access(db.session, this.now)
        _go_on(JobPath.PRUNE, tally)


def run_files() -> None:
    """Delete the files that every dispatch is done with, by `ATTACHMENT_MAX_AGE_SECONDS`."""
    with task_run("prune_files") as tally:
        files.prune_carried(db.session, begin(db.session, current(), tally))
        _go_on(JobPath.PRUNE_FILES, tally)


def _go_on(path: JobPath, tally: Tally) -> None:
    """Queue another run where the time was over before the work: behind all that waits there."""
    if not tally.left:
        return
    try:
        publish_task(path, Queue.MAINTENANCE)
    except PublishFailed:
        logger.warning("rest of a cleanup waits for its next time", extra={"job": path.value})
