"""Tables of files that are sent along, and of which dispatches carry them."""

import uuid
from datetime import datetime

from sqlalchemy import ForeignKey, func
from sqlalchemy.orm import Mapped, mapped_column

from dashboard.database import Base


class Attachment(Base):
    """One stored file; its id is random, its content is under a storage key of its own."""

    __tablename__ = "attachment"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=uuid.uuid4)
    source_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("source.id"), index=True)
    filename: Mapped[str]
    content_type: Mapped[str]
    size: Mapped[int]
    sha256: Mapped[str]
    storage_key: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    deleted_at: Mapped[datetime | None]


class DispatchAttachment(Base):
    """That a dispatch carries a file, where, and under which content id if it is inline."""

    __tablename__ = "dispatch_attachment"

    dispatch_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("dispatch.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True)
    attachment_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("attachment.id"), index=True)
    inline: Mapped[bool] = mapped_column(default=False)
    content_id: Mapped[str] = mapped_column(default="")
