"""The job that says "send these": load, call the sender of this process, report."""

import uuid
from collections.abc import Sequence

from rq import get_current_job

from dashboard.queueing.names import Queue
from jobs.process import application, sender


def run(ids: Sequence[str]) -> None:
    """Send dispatches by id. Safe to lose, repeat and reorder: the claim decides."""
    job = get_current_job()
    queue = job.origin if job is not None and job.origin else Queue.DEFAULT.value
    with application().app_context():
        sender().work([uuid.UUID(one) for one in ids], queue)
