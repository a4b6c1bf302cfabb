"""Tables of actions on many dispatches at once."""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, func
from sqlalchemy.orm import Mapped, mapped_column

from dashboard.database import Base, new_id


class Bulk(Base):
    """One retry, resend or cancel of many, run in the background."""

    __tablename__ = "bulk"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    action: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    filters: Mapped[dict[str, Any]] = mapped_column(default=dict)
    requested_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    stopped_at: Mapped[datetime | None]
    stopped_by: Mapped[str] = mapped_column(default="")
    total: Mapped[int] = mapped_column(default=0)
    pace_per_second: Mapped[float | None]


class BulkItem(Base):
    """One dispatch of a bulk and what came of it."""

    __tablename__ = "bulk_item"

    bulk_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("bulk.id", ondelete="CASCADE"), primary_key=True
    )
    dispatch_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    outcome: Mapped[str] = mapped_column(default="")
    detail: Mapped[str] = mapped_column(default="")
    result_id: Mapped[uuid.UUID | None]
    at: Mapped[datetime | None]
