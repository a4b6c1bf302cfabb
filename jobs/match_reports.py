"""The periodic task that applies reports which came too early or met a locked row."""

from dashboard.database import db
from dashboard.dispatch.reports.applying import match_waiting
from jobs.task import task_run


def run() -> None:
    """Apply what is pending or unmatched, up to two hours old."""
    with task_run("match_reports") as tally:
        tally.found, tally.repaired = match_waiting(db.session)
