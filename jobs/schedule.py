"""The scheduler's process: declares the timetable and keeps it. Any number of them may run.

Started by `wireroom scheduler`; ends on SIGTERM.
"""

import os
import time
from collections.abc import Callable

from sqlalchemy.exc import SQLAlchemyError

from dashboard import logs
from dashboard.queueing.connection import redis_connection
from dashboard.queueing.scheduler import HardenedScheduler, nothing_to_tell
from dashboard.queueing.timetable import timetable
from dashboard.settings import Settings, current


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


def main(on_epoch_lost: Callable[[], None] = nothing_to_tell) -> None:
    """Run until SIGTERM or SIGINT."""
    # rq-scheduler reads crontab lines in the process's zone, and repeats them when clocks change.
    os.putenv("TZ", "UTC")
    time.tzset()
    settings = current()
    logs.configure(settings)
    build_scheduler(settings, on_epoch_lost).run()
