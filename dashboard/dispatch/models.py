"""Tables of a dispatch: the row everything hangs on, its content, attempts and history.

Does not change a state: `transitions.py` is the only writer of `Dispatch.state`.
"""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column, relationship

from dashboard.access.models import Source
from dashboard.database import Base, enum_column, new_id
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.states import Channel, Failure, Hold, NextStep, State
from dashboard.providers.base import OutcomeKind


class Dispatch(Base):
    """One request to send one message to one recipient."""

    __tablename__ = "dispatch"
    __table_args__ = (
        Index("ix_dispatch_newest", text("created_at DESC"), text("id DESC")),
        Index(
            "ix_dispatch_by_state",
            "state",
            text("created_at DESC"),
            text("id DESC"),
            postgresql_where=text("state NOT IN ('succeeded', 'cancelled', 'sent')"),
        ),
        # In a table of emails the few text messages would be looked for row by row.
        Index("ix_dispatch_by_channel", "channel", text("created_at DESC"), text("id DESC")),
        Index(
            "ix_dispatch_cancelled",
            text("created_at DESC"),
            text("id DESC"),
            postgresql_where=text("state = 'cancelled'"),
        ),
        Index(
            "ix_dispatch_release",
            "due_at",
            postgresql_where=text(
                "state IN ('queued', 'delayed', 'stalled') AND published_at IS NULL"
            ),
        ),
        Index(
            "ix_dispatch_waiting",
            "queue",
            "due_at",
            postgresql_where=text("state IN ('queued', 'delayed', 'stalled')"),
        ),
        Index(
            "ix_dispatch_sending",
            "started_at",
            postgresql_where=text("state = 'sending'"),
        ),
        Index(
            "ix_dispatch_awaiting",
            "finished_at",
            postgresql_where=text("state = 'awaiting'"),
        ),
        Index("ix_dispatch_claimed", "queue", text("started_at DESC")),
        Index("ix_dispatch_target", "target_type", "target_id", text("created_at DESC")),
        Index("ix_dispatch_recipient", "recipient_normalised", text("created_at DESC")),
        Index("ix_dispatch_provider_message", "provider_message_id"),
        Index("ix_dispatch_copies", "copy_of_id", postgresql_where=text("copy_of_id IS NOT NULL")),
        Index("ix_dispatch_source", "source_id", text("created_at DESC"), text("id DESC")),
        Index("ix_dispatch_labels", "labels", postgresql_using="gin"),
        Index(
            "ix_dispatch_search",
            "search_text",
            postgresql_using="gin",
            postgresql_ops={"search_text": "gin_trgm_ops"},
        ),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    source_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("source.id"))
    channel: Mapped[Channel] = mapped_column(enum_column(Channel))
    kind: Mapped[str] = mapped_column(default="message")
    args: Mapped[list[Any]] = mapped_column(default=list)
    state: Mapped[State] = mapped_column(enum_column(State))
    # Grows with every move; a form carries it, so that a press on an old page is refused.
    version: Mapped[int] = mapped_column(default=1)
    sender: Mapped[str] = mapped_column(default="")
    recipient: Mapped[str]
    recipient_normalised: Mapped[str]
    subject: Mapped[str] = mapped_column(default="")
    # Lower-case address or number, subject, target id: what the text search looks into.
    search_text: Mapped[str] = mapped_column(default="")
    target_type: Mapped[str] = mapped_column(default="")
    target_id: Mapped[str] = mapped_column(default="")
    labels: Mapped[dict[str, str]] = mapped_column(default=dict)
    requested_by: Mapped[str] = mapped_column(default="")
    requested_at: Mapped[datetime] = mapped_column(server_default=func.now())
    queue: Mapped[str] = mapped_column(default="default")
    due_at: Mapped[datetime] = mapped_column(server_default=func.now())
    next_step: Mapped[NextStep] = mapped_column(enum_column(NextStep), default=NextStep.SEND)
    hold: Mapped[Hold] = mapped_column(enum_column(Hold), default=Hold.NONE)
    published_at: Mapped[datetime | None]
    expires_at: Mapped[datetime | None]
    cancel_noted_by: Mapped[str] = mapped_column(default="")
    cancel_noted_reason: Mapped[str] = mapped_column(default="")
    # How many attempts there have been; how many of them were before a person's last "Try again".
    attempts: Mapped[int] = mapped_column(default=0)
    attempts_before_retry: Mapped[int] = mapped_column(default=0)
    tries: Mapped[int] = mapped_column(default=0)
    losses: Mapped[int] = mapped_column(default=0)
    stalls: Mapped[int] = mapped_column(default=0)
    stalled_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    worker: Mapped[str] = mapped_column(default="")
    error: Mapped[str] = mapped_column(default="")
    failure: Mapped[Failure] = mapped_column(enum_column(Failure), default=Failure.NONE)
    permanent: Mapped[bool] = mapped_column(default=False)
    # Over all attempts: one may have arrived unseen; one is known accepted or delivered. They are
    # on the row, because the fence of the hand-over mark reads them under the row's lock.
    maybe_sent: Mapped[bool] = mapped_column(default=False)
    proven: Mapped[bool] = mapped_column(default=False)
    provider: Mapped[str] = mapped_column(default="")
    provider_message_id: Mapped[str] = mapped_column(default="")
    complained: Mapped[bool] = mapped_column(default=False)
    acknowledged_at: Mapped[datetime | None]
    acknowledged_by: Mapped[str] = mapped_column(default="")
    delivered_attempt: Mapped[int | None]
    idempotency: Mapped[str] = mapped_column(default="")
    file_count: Mapped[int] = mapped_column(default=0)
    copy_of_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("dispatch.id"))
    replaced_by_id: Mapped[uuid.UUID | None]
    replaces_id: Mapped[uuid.UUID | None]
    next_poll_at: Mapped[datetime | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    updated_at: Mapped[datetime] = mapped_column(server_default=func.now())

    source: Mapped[Source] = relationship(lazy="raise")
    email: Mapped["EmailContent | None"] = relationship(
        back_populates="dispatch", lazy="raise", uselist=False
    )
    sms: Mapped["SmsContent | None"] = relationship(
        back_populates="dispatch", lazy="raise", uselist=False
    )


class EmailContent(Base):
    """What an email says; kept apart, because it is deleted before the dispatch is."""

    __tablename__ = "email_content"

    dispatch_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("dispatch.id", ondelete="CASCADE"), primary_key=True
    )
    subject: Mapped[str] = mapped_column(default="")
    text: Mapped[str] = mapped_column(default="")
    html: Mapped[str] = mapped_column(default="")
    to: Mapped[list[str]] = mapped_column(default=list)
    cc: Mapped[list[str]] = mapped_column(default=list)
    reply_to: Mapped[list[str]] = mapped_column(default=list)
    headers: Mapped[dict[str, str]] = mapped_column(default=dict)
    message_id: Mapped[str] = mapped_column(default="")

    dispatch: Mapped[Dispatch] = relationship(back_populates="email", lazy="raise")


class SmsContent(Base):
    """What a text message says, and in how many segments it goes out."""

    __tablename__ = "sms_content"

    dispatch_id: Mapped[uuid.UUID] = mapped_column(
        ForeignKey("dispatch.id", ondelete="CASCADE"), primary_key=True
    )
    body: Mapped[str] = mapped_column(default="")
    media_urls: Mapped[list[str]] = mapped_column(default=list)
    segments: Mapped[int] = mapped_column(default=1)

    dispatch: Mapped[Dispatch] = relationship(back_populates="sms", lazy="raise")


class Attempt(Base):
    """One claim and what came of it, numbered from 1."""

    __tablename__ = "attempt"
    __table_args__ = (
        UniqueConstraint("dispatch_id", "number"),
        Index("ix_attempt_provider_message", "provider_message_id", "route"),
        Index("ix_attempt_claimed", "queue", "claimed_at"),
        Index("ix_attempt_code", "route", "code", postgresql_where=text("code <> ''")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    dispatch_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("dispatch.id", ondelete="CASCADE"))
    number: Mapped[int]
    worker: Mapped[str]
    queue: Mapped[str] = mapped_column(default="")
    claimed_at: Mapped[datetime]
    # When the job that brought it was published; null where it was claimed along with another.
    published_at: Mapped[datetime | None]
    handed_over_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    outcome: Mapped[OutcomeKind | None] = mapped_column(enum_column(OutcomeKind))
    lost: Mapped[bool] = mapped_column(default=False)
    # An `Evidence`: the best that is known about it, from the worker, a look-up or a report.
    evidence: Mapped[int] = mapped_column(default=int(Evidence.NONE))
    no_report: Mapped[bool] = mapped_column(default=False)
    route: Mapped[str] = mapped_column(default="")
    idempotency: Mapped[str] = mapped_column(default="")
    provider_message_id: Mapped[str] = mapped_column(default="")
    code: Mapped[str] = mapped_column(default="")
    detail: Mapped[str] = mapped_column(default="")
    retry_after_seconds: Mapped[float | None]
    look_ups: Mapped[int] = mapped_column(default=0)


class Transition(Base):
    """One line of a dispatch's history; repeats are counted, not repeated."""

    __tablename__ = "transition"
    __table_args__ = (Index("ix_transition_of_dispatch", "dispatch_id", "id"),)

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    dispatch_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("dispatch.id", ondelete="CASCADE"))
    state_from: Mapped[str] = mapped_column(default="")
    state_to: Mapped[str]
    trigger: Mapped[str]
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    actor: Mapped[str] = mapped_column(default="")
    attempt: Mapped[int | None]
    note: Mapped[str] = mapped_column(default="")
    repeats: Mapped[int] = mapped_column(default=0)


class Idempotency(Base):
    """One key of one source and the dispatch that answers it, for seven days."""

    __tablename__ = "idempotency"

    source_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("source.id"), primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    body_hash: Mapped[str]
    dispatch_id: Mapped[uuid.UUID]
    copies: Mapped[list[str]] = mapped_column(default=list)
    created_at: Mapped[datetime] = mapped_column(server_default=func.now(), index=True)


class Replacement(Base):
    """Which dispatch replaced which: one for each, whoever pressed at the same moment."""

    __tablename__ = "replacement"

    replaced_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("dispatch.id"), primary_key=True)
    dispatch_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("dispatch.id"), index=True)
    by: Mapped[str] = mapped_column(default="")
    at: Mapped[datetime] = mapped_column(server_default=func.now())


class RoutePause(Base):
    """A route that takes nothing now, why, and when it is probed next."""

    __tablename__ = "route_pause"

    route: Mapped[str] = mapped_column(primary_key=True)
    reason: Mapped[str]
    by: Mapped[str] = mapped_column(default="")
    paused_at: Mapped[datetime] = mapped_column(server_default=func.now())
    probed_at: Mapped[datetime | None]
    probe_detail: Mapped[str] = mapped_column(default="")
    # False where a person paused it: then only a person resumes it.
    probes: Mapped[bool] = mapped_column(default=True)
    # A resumed route starts with one; the others follow when that one went out.
    resumed_at: Mapped[datetime | None]
    trial_id: Mapped[uuid.UUID | None]


class Suppression(Base):
    """A recipient that further messages of a channel do not go to."""

    __tablename__ = "suppression"
    __table_args__ = (
        UniqueConstraint("source_id", "channel", "recipient_normalised"),
        Index("ix_suppression_newest", "created_at", postgresql_where=text("lifted_at IS NULL")),
    )

    id: Mapped[uuid.UUID] = mapped_column(primary_key=True, default=new_id)
    source_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("source.id"))
    channel: Mapped[Channel] = mapped_column(enum_column(Channel))
    recipient_normalised: Mapped[str]
    reason: Mapped[str] = mapped_column(default="")
    dispatch_id: Mapped[uuid.UUID | None]
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    lifted_at: Mapped[datetime | None]
    lifted_by: Mapped[str] = mapped_column(default="")
