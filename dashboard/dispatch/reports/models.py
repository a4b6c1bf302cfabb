"""Tables of what providers say about messages later."""

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ForeignKey, Index, func, text
from sqlalchemy.orm import Mapped, mapped_column

from dashboard.database import Base, enum_column, new_id


class ReportOutcome(StrEnum):
    """What came of a report."""

    PENDING = "pending"
    APPLIED = "applied"
    IGNORED = "ignored"
    DUPLICATE = "duplicate"
    UNMATCHED = "unmatched"
    CONFLICT = "conflict"


class StoredReport(Base):
    """One report as it came, and what came of it."""

    __tablename__ = "report"
    __table_args__ = (
        Index("ix_report_of_dispatch", "dispatch_id", "received_at"),
        Index(
            "ix_report_to_match",
            "received_at",
            postgresql_where=text("outcome IN ('pending', 'unmatched')"),
        ),
        Index("ix_report_latest_of_provider", "provider", text("received_at DESC")),
        Index("ix_report_conflict", "received_at", postgresql_where=text("outcome = 'conflict'")),
        Index("ix_report_code", "provider", "code", postgresql_where=text("code <> ''")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    provider: Mapped[str]
    received_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    occurred_at: Mapped[datetime | None]
    event: Mapped[str]
    provider_message_id: Mapped[str] = mapped_column(default="")
    tracking: Mapped[str] = mapped_column(default="")
    recipient: Mapped[str] = mapped_column(default="")
    reason: Mapped[str] = mapped_column(default="")
    code: Mapped[str] = mapped_column(default="")
    permanent: Mapped[bool] = mapped_column(default=False)
    raw: Mapped[dict[str, Any]] = mapped_column(default=dict)
    dispatch_id: Mapped[uuid.UUID | None] = mapped_column(
        ForeignKey("dispatch.id", ondelete="CASCADE")
    )
    attempt: Mapped[int | None]
    outcome: Mapped[ReportOutcome] = mapped_column(
        enum_column(ReportOutcome), default=ReportOutcome.PENDING
    )
    note: Mapped[str] = mapped_column(default="")
    repeats: Mapped[int] = mapped_column(default=0)


class ReportKey(Base):
    """The dedupe key of a report: the same news is stored once."""

    __tablename__ = "report_key"

    key: Mapped[str] = mapped_column(primary_key=True)
    report_id: Mapped[uuid.UUID] = mapped_column(index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
