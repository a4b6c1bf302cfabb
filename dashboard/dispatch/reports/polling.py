"""Asking providers: for the status of what awaits a report, and whether a doubtful one arrived.

No transaction is open while a provider is asked; what it says is a report like any other.
"""

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from sqlalchemy import ColumnElement, and_, or_, select

from dashboard import clock
from dashboard.database import AnySession, database_now
from dashboard.dispatch.doubt import LOOK_UP_AFTER, LOOK_UP_FOR
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.rendering import ContentMissing, render_sms
from dashboard.dispatch.repair.round import Tally
from dashboard.dispatch.reports.applying import receive
from dashboard.dispatch.states import Channel, Hold, NextStep, State, Trigger
from dashboard.dispatch.transitions import Change, Locked, lock, move
from dashboard.providers.base import Fetched, LookedUp, Sms
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.polling")

ACTOR = "poller"
AT_ONCE = 100
SLICE_SECONDS = 20.0
PACE_SECONDS = 0.05
FIRST_POLL = timedelta(seconds=30)
LONGEST_PAUSE = timedelta(minutes=15)
ASK_AGAIN = timedelta(minutes=1)
ABSENT_TWICE = 2
SILENT_IN_A_ROW = 3


@runtime_checkable
class Answering(Protocol):
    """A provider that can be asked about one message."""

    name: str

    def fetch_status(self, provider_message_id: str) -> Fetched:
        """Return the status of a message, or why it cannot be said now."""
        ...

    def look_up(self, message: Sms, since: datetime) -> LookedUp:
        """Return whether a message was created since an attempt began."""
        ...


@dataclass(frozen=True, slots=True)
class Poll:
    """One run of the poller."""

    settings: Settings
    provider: Answering
    tally: Tally
    sleep: Callable[[float], None]

    @property
    def window(self) -> timedelta:
        """How long an SMS may await its final report."""
        return timedelta(hours=self.settings.sms_timeout_hours)


def poll(session: AnySession, this: Poll) -> None:
    """Fetch what is due, then look up what is doubtful; at most twenty seconds. Commits.

    A provider that says when to come back, or is silent about three in a row, ends the run: the
    next one goes on. One message that it cannot say anything about does not hold up the others.
    """
    until = clock.monotonic() + SLICE_SECONDS
    silent = 0
    for dispatch_id, message_id in _due(session, this):
        if clock.monotonic() > until:
            this.tally.left = True
            return
        this.tally.found += 1
        fetched = fetch_one(session, this, dispatch_id, message_id)
        silent = 0 if fetched.report else silent + 1
        this.tally.skipped += not fetched.report
        if silent == SILENT_IN_A_ROW or (silent and fetched.retry_after_seconds):
            return
        this.sleep(PACE_SECONDS)
    for dispatch_id in _doubtful(session, this):
        if clock.monotonic() > until:
            this.tally.left = True
            return
        this.tally.found += 1
        look_up_one(session, this, dispatch_id)
        this.sleep(PACE_SECONDS)


def _due(session: AnySession, this: Poll) -> list[tuple[uuid.UUID, str]]:
    now = database_now(session)
    silent_for = timedelta(0) if not this.settings.twilio_webhook_url else this.window / 2
    condition: ColumnElement[bool] = and_(
        Dispatch.state == State.AWAITING,
        Dispatch.channel == Channel.SMS,
        Dispatch.provider == this.provider.name,
        Dispatch.provider_message_id != "",
        Dispatch.finished_at <= now - silent_for,
        or_(Dispatch.next_poll_at.is_(None), Dispatch.next_poll_at <= now),
    )
    rows = session.execute(
        select(Dispatch.id, Dispatch.provider_message_id)
        .where(condition)
        .order_by(Dispatch.next_poll_at.nulls_first(), Dispatch.finished_at)
        .limit(AT_ONCE)
    ).all()
    session.commit()
    return [(row.id, row.provider_message_id) for row in rows]


def fetch_one(
    session: AnySession, this: Poll, dispatch_id: uuid.UUID, provider_message_id: str
) -> Fetched:
    """Ask for one message and apply what is said; return what that was.

    Where the provider cannot say, it is asked again in a minute, or when it wants to be. What still
    awaits after its whole window had its last fetch and is timed out. Commits.
    """
    fetched = this.provider.fetch_status(provider_message_id)
    if fetched.report is None:
        logger.info("status not fetched", extra={"dispatch_id": dispatch_id})
        if not fetched.retry_after_seconds:
            _put_off(session, dispatch_id)
        return fetched
    receive(session, [fetched.report])
    for locked in lock(session, [dispatch_id], skip_locked=True):
        row = locked.dispatch
        if row.state is not State.AWAITING or row.finished_at is None:
            this.tally.repaired += 1
            continue
        age = locked.now - row.finished_at
        row.next_poll_at = locked.now + min(max(age / 4, FIRST_POLL), LONGEST_PAUSE)
        if age > this.window:
            _time_out(session, this, locked)
    session.commit()
    return fetched


def _put_off(session: AnySession, dispatch_id: uuid.UUID) -> None:
    for locked in lock(session, [dispatch_id], skip_locked=True):
        locked.dispatch.next_poll_at = locked.now + ASK_AGAIN
    session.commit()


def _time_out(session: AnySession, this: Poll, locked: Locked) -> None:
    note = f"Accepted, but no final report came in {this.settings.sms_timeout_hours:g} h."
    move(session, locked, Change(Trigger.TIME_OUT, ACTOR, note=note, values={"error": note}))
    this.tally.repaired += 1


def _doubtful(session: AnySession, this: Poll) -> list[uuid.UUID]:
    now = database_now(session)
    query = (
        select(Dispatch.id)
        .where(
            Dispatch.state == State.DELAYED,
            Dispatch.next_step == NextStep.LOOK_UP,
            Dispatch.hold == Hold.NONE,
            Dispatch.due_at <= now,
            Dispatch.provider == this.provider.name,
        )
        .order_by(Dispatch.due_at)
        .limit(AT_ONCE)
    )
    ids = list(session.scalars(query))
    session.commit()
    return ids


def look_up_one(session: AnySession, this: Poll, dispatch_id: uuid.UUID) -> LookedUp | None:
    """Ask whether the doubtful attempt of a dispatch arrived, and act on the answer. Commits.

    Returns None where there is nothing to ask about.
    """
    row = session.get(Dispatch, dispatch_id, populate_existing=True)
    attempt = session.scalars(
        select(Attempt)
        .where(Attempt.dispatch_id == dispatch_id)
        .order_by(Attempt.number.desc())
        .limit(1)
    ).first()
    try:
        message = render_sms(session, row) if row is not None else None
    except ContentMissing:
        message = None
    session.commit()
    if row is None or attempt is None or message is None:
        return None
    answer = this.provider.look_up(message, attempt.claimed_at)
    if answer.report is not None:
        key = f"{dispatch_id}.{attempt.number}"
        receive(session, [replace(answer.report, key=key)])
        this.tally.repaired += 1
        return answer
    _note_no_trace(session, this, dispatch_id, answer)
    return answer


def _note_no_trace(
    session: AnySession, this: Poll, dispatch_id: uuid.UUID, answer: LookedUp
) -> None:
    """Count an answer without a trace; after two of them it certainly did not go out."""
    for locked in lock(session, [dispatch_id], skip_locked=True):
        row, attempt = locked.dispatch, locked.attempts[-1]
        if row.state is not State.DELAYED or row.next_step is not NextStep.LOOK_UP:
            continue
        attempt.look_ups += answer.answered
        if attempt.look_ups >= ABSENT_TWICE:
            note = "The provider was asked twice and does not have it."
            change = Change(
                Trigger.DEFER,
                ACTOR,
                about=attempt.number,
                evidence=Evidence.ABSENT,
                note=note,
                values={"due_at": locked.now, "error": note},
            )
            move(session, locked, change)
            this.tally.repaired += 1
        elif locked.now - attempt.claimed_at > LOOK_UP_FOR:
            note = f"The provider could not say for two hours. {answer.detail}".strip()
            move(session, locked, Change(Trigger.LOSE, ACTOR, note=note, values={"error": note}))
            this.tally.repaired += 1
        else:
            pause = LOOK_UP_AFTER[1] - LOOK_UP_AFTER[0] if answer.answered else ASK_AGAIN
            row.due_at = locked.now + pause
    session.commit()
