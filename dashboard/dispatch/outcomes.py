"""What a worker's outcome means for its dispatch: stored on its own attempt, then settled.

The rules of each outcome are in `decisions.py`; this module says which trigger an outcome is and
what is written with it. Nothing here commits.
"""

import logging
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import select

from dashboard.access.models import Source
from dashboard.database import AnySession
from dashboard.dispatch import ladder, suppressions
from dashboard.dispatch.decisions import Decision
from dashboard.dispatch.doubt import LOOK_UP_AFTER, NOTES, Doubt, Policy, Remedy, remedy
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt
from dashboard.dispatch.states import Channel, Failure, Hold, NextStep, Trigger
from dashboard.dispatch.transitions import Change, Locked, lock, move
from dashboard.providers.base import Capabilities, Outcome, OutcomeKind
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.dispatch")

ERROR_LIMIT = 2000
EVIDENCE = {
    OutcomeKind.ACCEPTED: Evidence.ACCEPTED,
    OutcomeKind.TRANSIENT: Evidence.ABSENT,
    OutcomeKind.PERMANENT: Evidence.ABSENT,
    OutcomeKind.CONFIG: Evidence.ABSENT,
    OutcomeKind.UNKNOWN: Evidence.UNKNOWN,
}


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one attempt, as its worker saw it.

    Attributes:
        failure: why it failed, where it was our own fault (`bug`) or we did not try (`suppressed`).
    """

    dispatch_id: uuid.UUID
    attempt_id: uuid.UUID
    number: int
    route: str
    outcome: Outcome
    failure: Failure = Failure.NONE
    channel: Channel = Channel.EMAIL


@dataclass(frozen=True, slots=True)
class Judge:
    """What judging outcomes needs to know besides the rows."""

    settings: Settings
    actor: str
    capabilities: Capabilities


def record(
    session: AnySession, results: Sequence[Result], judge: Judge
) -> dict[uuid.UUID, Decision]:
    """Store outcomes on their own attempts and settle their dispatches; five statements at most,
    and one more for each recipient that it suppresses.

    Waits for rows that others hold, as long as the connection's lock timeout. Does not commit.
    """
    by_dispatch: dict[uuid.UUID, list[Result]] = {}
    for result in results:  # of two attempts of one dispatch, where the database was away for long
        by_dispatch.setdefault(result.dispatch_id, []).append(result)
    decisions = {}
    for locked in lock(session, list(by_dispatch)):
        for result in by_dispatch[locked.dispatch.id]:
            decisions[locked.dispatch.id] = record_one(session, locked, result, judge)
    return decisions


def record_one(session: AnySession, locked: Locked, result: Result, judge: Judge) -> Decision:
    """Store one outcome on its own attempt and settle the locked dispatch. Does not commit."""
    attempt = next(one for one in locked.attempts if one.id == result.attempt_id)
    _store(locked, attempt, result.outcome)
    if suppressions.ends_by(result.outcome, result.route):
        session.execute(suppressions.suppress(locked.dispatch, result.outcome.detail))
    change = change_for(session, locked, result, judge)
    return move(session, locked, change)


def _store(locked: Locked, attempt: Attempt, outcome: Outcome) -> None:
    attempt.outcome = outcome.kind
    attempt.finished_at = locked.now
    attempt.detail = outcome.detail[:ERROR_LIMIT]
    attempt.code = outcome.code
    attempt.retry_after_seconds = outcome.retry_after_seconds
    attempt.no_report = outcome.kind is OutcomeKind.ACCEPTED and not outcome.report_expected
    if outcome.provider_message_id:
        attempt.provider_message_id = outcome.provider_message_id
        locked.dispatch.provider_message_id = outcome.provider_message_id


def change_for(session: AnySession, locked: Locked, result: Result, judge: Judge) -> Change:
    """Return the trigger that an outcome is, with all that is written if the dispatch moves."""
    match result.outcome.kind:
        case OutcomeKind.ACCEPTED:
            return _accepted(result, judge)
        case OutcomeKind.TRANSIENT:
            return _transient(locked, result, judge)
        case OutcomeKind.PERMANENT:
            return _permanent(result, judge)
        case OutcomeKind.CONFIG:
            return _config(locked, result, judge)
        case OutcomeKind.UNKNOWN:
            return doubt_change(session, locked, result, judge)


def _accepted(result: Result, judge: Judge) -> Change:
    return Change(
        Trigger.ACCEPT if result.outcome.report_expected else Trigger.COMPLETE,
        actor=judge.actor,
        about=result.number,
        evidence=Evidence.ACCEPTED,
        note=result.outcome.detail[:ERROR_LIMIT],
        values={"error": ""},
    )


def _transient(locked: Locked, result: Result, judge: Judge) -> Change:
    row, outcome = locked.dispatch, result.outcome
    tries = row.tries + 1
    left = ladder.has_tries_left(tries)
    wait = _pause(tries, judge, outcome)
    return Change(
        Trigger.DEFER,
        actor=judge.actor,
        about=result.number,
        evidence=Evidence.ABSENT,
        tries_left=left,
        note=outcome.detail[:ERROR_LIMIT],
        values={
            "tries": tries,
            "due_at": locked.now + wait,
            "error": outcome.detail[:ERROR_LIMIT],
            "failure": Failure.NONE if left else Failure.EXHAUSTED,
        },
    )


def _pause(tries: int, judge: Judge, outcome: Outcome) -> timedelta:
    return ladder.pause(
        tries,
        base_seconds=judge.settings.retry_base_seconds,
        luck=random.random(),  # noqa: S311  it spreads load, it guards nothing
        retry_after_seconds=outcome.retry_after_seconds,
    )


def _permanent(result: Result, judge: Judge) -> Change:
    return Change(
        Trigger.FAIL,
        actor=judge.actor,
        about=result.number,
        evidence=Evidence.ABSENT,
        permanent=True,
        note=result.outcome.detail[:ERROR_LIMIT],
        values={
            "error": result.outcome.detail[:ERROR_LIMIT],
            "failure": result.failure or Failure.REFUSED,
            "permanent": result.failure not in (Failure.BUG, Failure.SUPPRESSED),
        },
    )


def _config(locked: Locked, result: Result, judge: Judge) -> Change:
    return Change(
        Trigger.DEFER,
        actor=judge.actor,
        about=result.number,
        evidence=Evidence.ABSENT,
        note=f"Its route is paused: {result.outcome.detail}"[:ERROR_LIMIT],
        values={
            "due_at": locked.now,
            "error": result.outcome.detail[:ERROR_LIMIT],
            "hold": Hold.ROUTE,
        },
    )


def doubt_change(session: AnySession, locked: Locked, result: Result, judge: Judge) -> Change:
    """Return what the unknown-outcome policy does about an attempt; see `doubt.py`."""
    row, outcome = locked.dispatch, result.outcome
    cure = remedy(_doubt(session, locked, result, judge))
    tries = row.tries + (cure is not Remedy.LOOK_UP)
    left = ladder.has_tries_left(tries) and cure is not Remedy.HOLD
    looks_up = cure is Remedy.LOOK_UP
    wait = LOOK_UP_AFTER[0] if looks_up else _pause(tries, judge, outcome)
    return Change(
        Trigger.LOSE if cure is Remedy.HOLD else Trigger.DOUBT,
        actor=judge.actor,
        about=result.number,
        evidence=Evidence.UNKNOWN,
        step=NextStep.LOOK_UP if looks_up else NextStep.SEND,
        tries_left=left,
        note=f"{outcome.detail} {NOTES[cure]}".strip()[:ERROR_LIMIT],
        values={
            "tries": tries,
            "due_at": locked.now + wait,
            "error": outcome.detail[:ERROR_LIMIT],
        },
    )


def _doubt(session: AnySession, locked: Locked, result: Result, judge: Judge) -> Doubt:
    row = locked.dispatch
    own = next(one for one in locked.attempts if one.number == result.number)
    first = next(one for one in locked.attempts if one.idempotency == own.idempotency)
    source = session.scalars(select(Source).where(Source.id == row.source_id)).one()
    email = row.channel is Channel.EMAIL
    return Doubt(
        capabilities=judge.capabilities,
        policy=Policy(source.unknown_outcome_email if email else source.unknown_outcome_sms),
        key_age=locked.now - first.claimed_at,
        has_secrets=row.kind != "message",
    )
