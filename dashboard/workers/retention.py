"""Deletes what the machinery wrote down for thirty days: runs, heartbeats, workers long gone.

The last success and failure of each task stay for good (`TaskStatus`).
"""

from datetime import datetime, timedelta

from sqlalchemy import delete

from dashboard.database import AnySession
from dashboard.workers.models import Heartbeat, TaskRun, Worker

KEPT = timedelta(days=30)


def prune_machinery(session: AnySession, now: datetime) -> None:
    """Delete runs, heartbeats and workers last seen over thirty days ago. Commits."""
    session.execute(delete(TaskRun).where(TaskRun.started_at <= now - KEPT))
    session.execute(delete(Heartbeat).where(Heartbeat.asked_at <= now - KEPT))
    session.execute(delete(Worker).where(Worker.seen_at <= now - KEPT))
    session.commit()
