"""What health checks and the banner of every page say about the machinery."""

from dashboard.queueing.connection import redis_connection
from dashboard.queueing.scheduler_state import SchedulerState, scheduler_state
from dashboard.queueing.timetable import timetable
from dashboard.settings import Settings


def scheduler_now(settings: Settings) -> SchedulerState:
    """Return the scheduler as Redis knows it; one round trip, at most a second, never raises."""
    return scheduler_state(redis_connection(settings), timetable(settings))
