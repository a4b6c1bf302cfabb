"""The scheduler's process: declares the timetable and keeps it. Any number of them may run.

Started by `wireroom scheduler`; ends on SIGTERM.
"""

import logging
import os
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from dashboard import logs
from dashboard.database import db
from dashboard.dispatch.publishing import forget_published
from dashboard.queueing.connection import redis_connection
from dashboard.queueing.scheduler import HardenedScheduler, nothing_to_tell
from dashboard.queueing.timetable import timetable
from dashboard.settings import Settings, current
from jobs.process import application

logger = logging.getLogger("wireroom.scheduler")


def build_scheduler(
    settings: Settings, on_epoch_lost: Callable[[], None] = nothing_to_tell
) -> HardenedScheduler:
    """Return the scheduler of an installation.

    Args:
        settings: where Redis is, and the intervals.
        on_epoch_lost: called when Redis was emptied, again and again until it raises no
            SQLAlchemyError or OSError; it commits for itself.
    """
    return HardenedScheduler(
        redis_connection(settings),
        timetable(settings),
        on_epoch_lost=on_epoch_lost,
        epoch_errors=(SQLAlchemyError, OSError),
    )


def forget_what_was_published() -> None:
    """Let `release` publish every waiting dispatch again: the jobs of before are gone."""
    with application().app_context():
        count = forget_published(db.session)
    logger.warning("redis was emptied", extra={"waiting": count})


def main(on_epoch_lost: Callable[[], None] = forget_what_was_published) -> None:
    """Run until SIGTERM or SIGINT."""
    # rq-scheduler reads crontab lines in the process's zone, and repeats them when clocks change.
    os.putenv("TZ", "UTC")
    time.tzset()
    settings = current()
    logs.configure(settings)
    build_scheduler(settings, on_epoch_lost).run()
