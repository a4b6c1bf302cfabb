"""Rows for tests, with sensible content; each function commits nothing unless it says so."""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dashboard.access.models import Source
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, EmailContent, SmsContent
from dashboard.dispatch.states import Channel, State
from dashboard.dispatch.transitions import opening


def make_source(session: Session, name: str = "programme-site", **values: Any) -> Source:
    """Return the source of this name, made if it is not there. Flushes."""
    source = session.scalars(select(Source).where(Source.name == name)).first()
    if source is None:
        source = Source(name=name, **values)
        session.add(source)
        session.flush()
    return source


def make_dispatch(session: Session, *, source: Source | None = None, **values: Any) -> Dispatch:
    """Return a queued email, published a moment ago unless `published_at` says else. Flushes."""
    content = {key: values.pop(key) for key in ("text", "html") if key in values}
    source = source or make_source(session)
    state = values.pop("state", State.QUEUED)
    recipient = values.pop("recipient", "ada@example.com")
    now: datetime = session.scalar(select(func.clock_timestamp()))
    defaults: dict[str, Any] = {
        "id": uuid.uuid4() if values.pop("random_id", False) else None,
        "channel": Channel.EMAIL,
        "sender": "programme@example.com",
        "recipient": recipient,
        "recipient_normalised": recipient.lower(),
        "subject": "Your talk",
        "search_text": f"{recipient.lower()} your talk",
        "published_at": now,
    }
    merged = {**defaults, **values}
    if merged["id"] is None:
        del merged["id"]
    row = Dispatch(source_id=source.id, **merged)
    if row.id is None:
        from dashboard.database import new_id

        row.id = new_id()
    history = opening(row, "token:test")
    if state is not State.QUEUED:
        # Tests may set the scene; the product's only writer of a state is transitions.py.
        vars(row)["_sa_instance_state"]
        row.state = state
        history.state_to = state.value
    session.add_all([row, history])
    session.flush()
    if row.channel is Channel.EMAIL:
        session.add(
            EmailContent(
                dispatch_id=row.id,
                subject=row.subject,
                text=content.get("text", "Hello"),
                html=content.get("html", ""),
                to=[recipient],
                message_id=f"<{row.id}@wireroom.example>",
            )
        )
    else:
        session.add(SmsContent(dispatch_id=row.id, body=content.get("text", "Hello"), segments=1))
    session.flush()
    return row


def make_attempt(session: Session, row: Dispatch, **values: Any) -> Attempt:
    """Return the next attempt of a dispatch, claimed now by worker w-1. Flushes."""
    now: datetime = session.scalar(select(func.clock_timestamp()))
    row.attempts += 1
    defaults: dict[str, Any] = {
        "number": row.attempts,
        "worker": "w-1",
        "queue": row.queue,
        "claimed_at": now,
        "route": "smtp",
        "evidence": int(Evidence.NONE),
        "idempotency": f"{row.id}.{row.attempts}",
    }
    attempt = Attempt(dispatch_id=row.id, **{**defaults, **values})
    session.add(attempt)
    session.flush()
    return attempt
