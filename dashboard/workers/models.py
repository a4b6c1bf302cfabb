"""Tables of the machinery: workers, their heartbeats, the runs of the periodic tasks."""

import uuid
from datetime import datetime

from sqlalchemy import Index, func
from sqlalchemy.orm import Mapped, mapped_column

from dashboard.database import Base, new_id


class Worker(Base):
    """One worker process, from its start to its stop; `seen_at` is on the database's clock."""

    __tablename__ = "worker"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(unique=True)
    host: Mapped[str]
    pid: Mapped[int]
    queues: Mapped[list[str]]
    version: Mapped[str] = mapped_column(default="")
    fingerprint: Mapped[str] = mapped_column(default="")
    sentry: Mapped[bool] = mapped_column(default=False)
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)
    stopped_at: Mapped[datetime | None]
    # How far the process's own clock is ahead of the database's, in seconds, when last seen.
    clock_ahead_seconds: Mapped[float] = mapped_column(default=0)
    done: Mapped[int] = mapped_column(default=0)
    failed: Mapped[int] = mapped_column(default=0)


class Heartbeat(Base):
    """One question "is anybody consuming this queue?" and its answer."""

    __tablename__ = "heartbeat"
    __table_args__ = (Index("ix_heartbeat_latest_of_queue", "queue", "asked_at"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    queue: Mapped[str]
    worker: Mapped[str] = mapped_column(default="")
    sentry: Mapped[bool] = mapped_column(default=False)
    asked_at: Mapped[datetime] = mapped_column(server_default=func.now())
    seen_at: Mapped[datetime | None]


class TaskRun(Base):
    """One run of one periodic task."""

    __tablename__ = "task_run"
    __table_args__ = (Index("ix_task_run_latest", "task", "started_at"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    task: Mapped[str]
    due_at: Mapped[datetime | None]
    started_at: Mapped[datetime] = mapped_column(server_default=func.now())
    finished_at: Mapped[datetime | None]
    outcome: Mapped[str] = mapped_column(default="")
    found: Mapped[int] = mapped_column(default=0)
    repaired: Mapped[int] = mapped_column(default=0)
    skipped: Mapped[int] = mapped_column(default=0)
    error: Mapped[str] = mapped_column(default="")


class TaskStatus(Base):
    """The last success and the last failure of a task, kept for good when its runs are pruned."""

    __tablename__ = "task_status"

    task: Mapped[str] = mapped_column(primary_key=True)
    last_success_at: Mapped[datetime | None]
    last_failure_at: Mapped[datetime | None]
    last_error: Mapped[str] = mapped_column(default="")
