"""The periodic task that publishes what is due and not published."""

from dashboard.database import db
from dashboard.dispatch.publishing import SLICE, release
from dashboard.settings import current
from jobs.task import task_run

ROUNDS = 10


def run() -> None:
    """Publish in slices, until nothing is due or ten slices are out."""
    with task_run("release") as tally:
        for _ in range(ROUNDS):
            count = release(db.session, current())
            tally.found += count
            tally.repaired += count
            if count < SLICE:
                return
        tally.left = True
