"""Tables of who may see and do what: sources, users, sessions, grants, tokens, activity."""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, func
from sqlalchemy.orm import Mapped, mapped_column, relationship

from dashboard.access.permissions import Role
from dashboard.database import Base, enum_column, new_id


class Source(Base):
    """The application (or team) that asks for messages: owns tokens, defaults, limits, policies."""

    __tablename__ = "source"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    name: Mapped[str] = mapped_column(unique=True)
    email_from: Mapped[str] = mapped_column(default="")
    sms_from: Mapped[str] = mapped_column(default="")
    rate_per_second: Mapped[float | None]
    daily_cap: Mapped[int | None]
    # "resend" or "hold": what happens when nobody can say whether a message arrived (design 5).
    unknown_outcome_email: Mapped[str] = mapped_column(default="resend")
    unknown_outcome_sms: Mapped[str] = mapped_column(default="hold")
    report_callback_url: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())


class User(Base):
    """A person who signs in. Rights come from grants, never from a flag here."""

    __tablename__ = "user"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    email: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(default="")
    password_hash: Mapped[str] = mapped_column(default="")
    totp_secret: Mapped[str] = mapped_column(default="")
    oidc_subject: Mapped[str | None] = mapped_column(unique=True)
    active: Mapped[bool] = mapped_column(default=True)
    theme: Mapped[str] = mapped_column(default="auto")
    time_zone: Mapped[str] = mapped_column(default="")
    preferences: Mapped[dict[str, Any]] = mapped_column(default=dict)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

    grants: Mapped[list["Grant"]] = relationship(back_populates="user", lazy="selectin")


class Grant(Base):
    """A role that a user has on one source, or on all of them (`source_id` is null)."""

    __tablename__ = "grant"
    __table_args__ = (UniqueConstraint("user_id", "role", "source_id"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    user_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("user.id", ondelete="CASCADE"))
    role: Mapped[Role] = mapped_column(enum_column(Role))
    source_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("source.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())

    user: Mapped[User] = relationship(back_populates="grants")


class UserSession(Base):
    """One signed-in browser; only the hash of its cookie is stored."""

    __tablename__ = "session"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    token_hash: Mapped[str] = mapped_column(unique=True)
    user_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("user.id", ondelete="CASCADE"), index=True
    )
    address: Mapped[str] = mapped_column(default="")
    user_agent: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    seen_at: Mapped[datetime] = mapped_column(server_default=func.now())
    revoked_at: Mapped[datetime | None]


class SetupLink(Base):
    """A one-time link: `setup` makes the first administrator, `invitation` lets a new user in."""

    __tablename__ = "setup_link"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    token_hash: Mapped[str] = mapped_column(unique=True)
    purpose: Mapped[str]
    email: Mapped[str] = mapped_column(default="")
    role: Mapped[str] = mapped_column(default="")
    source_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("source.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime]
    used_at: Mapped[datetime | None]


class ApiToken(Base):
    """A bearer token of one source; only its hash is stored."""

    __tablename__ = "api_token"

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    source_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("source.id"))
    name: Mapped[str] = mapped_column(default="")
    token_hash: Mapped[str] = mapped_column(unique=True)
    prefix: Mapped[str] = mapped_column(default="")
    permissions: Mapped[list[str]] = mapped_column(default=list)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]

    source: Mapped[Source] = relationship(lazy="joined")


class Activity(Base):
    """Who did what to what, and why; append-only, written in the action's own transaction."""

    __tablename__ = "activity"
    __table_args__ = (
        Index("ix_activity_newest", "at", "id"),
        Index("ix_activity_subject", "subject_type", "subject_id"),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    at: Mapped[datetime] = mapped_column(server_default=func.now())
    actor: Mapped[str]
    via: Mapped[str] = mapped_column(default="page")
    action: Mapped[str]
    subject_type: Mapped[str] = mapped_column(default="")
    subject_id: Mapped[str] = mapped_column(default="")
    source_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("source.id"))
    reason: Mapped[str] = mapped_column(default="")
    outcome: Mapped[str] = mapped_column(default="done")
    count: Mapped[int] = mapped_column(default=1)
    details: Mapped[dict[str, Any]] = mapped_column(default=dict)
    address: Mapped[str] = mapped_column(default="")
