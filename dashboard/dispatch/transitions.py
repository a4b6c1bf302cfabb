"""The only writer of a dispatch's state: lock the row, ask the rules, write state and history.

Nothing here commits: a use case commits once, visibly. Attempts are written under the lock of their
dispatch, so that whoever holds it sees all that is known about it.
"""

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select, update

from dashboard.database import AnySession, is_one_of, new_id
from dashboard.dispatch.decisions import Decision, Verdict, decide
from dashboard.dispatch.facts import AttemptFacts, Evidence, Facts, rises
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.states import REPORTS, Failure, NextStep, State, Trigger
from dashboard.logs import dispatch_fields

logger = logging.getLogger("wireroom.dispatch")

_WENT_OUT = frozenset({State.AWAITING, State.SENT, State.SUCCEEDED})


@dataclass(slots=True)
class Locked:
    """A dispatch under lock with all its attempts, oldest first, and the database's time."""

    dispatch: Dispatch
    attempts: list[Attempt]
    now: datetime

    @property
    def open_attempt(self) -> Attempt | None:
        """The attempt that `sending` stands for, if the row is sending."""
        if self.dispatch.state is not State.SENDING or not self.attempts:
            return None
        return self.attempts[-1]


@dataclass(frozen=True, slots=True)
class Change:
    """A trigger and what comes with it.

    Attributes:
        actor: who did it: `user:…`, `token:…`, `worker:…`, `provider:…`, `reconciler`.
        about: the number of the attempt it brings news of; 0 for none.
        evidence: the news about that attempt.
        step, tries_left, permanent: facts of this trigger (see `Facts`).
        values: columns of the dispatch to write if it moves.
    """

    trigger: Trigger
    actor: str
    about: int = 0
    evidence: Evidence = Evidence.NONE
    step: NextStep = NextStep.SEND
    tries_left: bool = True
    permanent: bool = False
    note: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


def lock(
    session: AnySession,
    ids: Sequence[uuid.UUID],
    *conditions: ColumnElement[bool],
    skip_locked: bool = False,
) -> list[Locked]:
    """Lock dispatches in the order of their ids and load their attempts: two statements.

    The attempts are read by a second statement on purpose: one that waited for the lock would still
    see them as they were before the wait.

    Args:
        conditions: rows that do not meet them any more are left out.
        skip_locked: leave out what somebody else holds instead of waiting for it.
    """
    query = (
        select(Dispatch, func.clock_timestamp())
        .where(is_one_of(Dispatch.id, ids), *conditions)
        .order_by(Dispatch.id)
        .with_for_update(of=Dispatch, skip_locked=skip_locked)
        .execution_options(populate_existing=True)
    )
    found = session.execute(query).all()
    if not found:
        return []
    attempts = attempts_of(session, [row.id for row, _ in found])
    return [Locked(row, attempts.get(row.id, []), now) for row, now in found]


def attempts_of(session: AnySession, ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[Attempt]]:
    """Return the attempts of dispatches, oldest first, by dispatch."""
    query = (
        select(Attempt)
        .where(is_one_of(Attempt.dispatch_id, ids))
        .order_by(Attempt.dispatch_id, Attempt.number)
        .execution_options(populate_existing=True)
    )
    grouped: dict[uuid.UUID, list[Attempt]] = {}
    for attempt in session.scalars(query):
        grouped.setdefault(attempt.dispatch_id, []).append(attempt)
    return grouped


def opening(dispatch: Dispatch, actor: str) -> Transition:
    """Put a new dispatch into `queued` and return the first line of its history, to be added."""
    dispatch.state = State.QUEUED
    return Transition(
        dispatch_id=dispatch.id, state_to=State.QUEUED.value, trigger="request", actor=actor
    )


def facts_of(locked: Locked, change: Change, *, news_rose: bool = True) -> Facts:
    """Return what the rules may know about a locked row; the news is expected to be in already."""
    row, now = locked.dispatch, locked.now
    current, spoken = locked.open_attempt, change.about
    return Facts(
        channel=row.channel,
        hold=row.hold,
        due=row.due_at <= now and (row.expires_at is None or now < row.expires_at),
        next_step=row.next_step,
        step=change.step,
        replaced=row.replaced_by_id is not None,
        cancel_noted=bool(row.cancel_noted_by),
        attempts=tuple(
            AttemptFacts(
                number=one.number,
                evidence=Evidence(one.evidence),
                is_open=one is current and one.finished_at is None and one.number != spoken,
                before_retry=one.number <= row.attempts_before_retry,
                no_report=one.no_report,
            )
            for one in locked.attempts
        ),
        about=spoken,
        news_rose=news_rose,
        tries_left=change.tries_left,
        permanent=change.permanent,
    )


def move(session: AnySession, locked: Locked, change: Change) -> Decision:
    """Note the news, ask the rules and write what they say: the state and one history row.

    Does not commit. A decision other than `moved` writes no history and no state.
    """
    decision, history = apply(locked, change)
    if history is not None and history.state_from == history.state_to:
        _count_repeat(session, history)
    elif history is not None:
        session.add(history)
    return decision


def apply(locked: Locked, change: Change) -> tuple[Decision, Transition | None]:
    """Do what `move` does, but leave the line of history to the caller, to be added."""
    rose = note_evidence(locked, change)
    facts = facts_of(locked, change, news_rose=rose)
    decision = decide(locked.dispatch.state, change.trigger, facts)
    return decision, write(locked, change, decision)


def _count_repeat(session: AnySession, again: Transition) -> None:
    """Count a move that ends where it began on the line that is there; add none."""
    last = (
        select(Transition.id)
        .where(Transition.dispatch_id == again.dispatch_id)
        .order_by(Transition.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    session.execute(
        update(Transition)
        .where(Transition.id == last)
        .values(repeats=Transition.repeats + 1)
        .execution_options(synchronize_session=False)
    )


def note_evidence(locked: Locked, change: Change) -> bool:
    """Store the news on its own attempt and return whether it was more than what was known."""
    attempt = next((one for one in locked.attempts if one.number == change.about), None)
    if attempt is None or change.evidence is Evidence.NONE:
        return True
    if not rises(Evidence(attempt.evidence), change.evidence, locked.dispatch.channel):
        return False
    attempt.evidence = int(change.evidence)
    _summarise(locked)
    return True


def _summarise(locked: Locked) -> None:
    """Keep on the row what its attempts say together; the fence and the pages read it there."""
    known = [Evidence(one.evidence) for one in locked.attempts]
    locked.dispatch.maybe_sent = any(one.may_have_arrived for one in known)
    locked.dispatch.proven = any(one.is_accepted or one is Evidence.DELIVERED for one in known)


def write(locked: Locked, change: Change, decision: Decision) -> Transition | None:
    """Write a decision on the row; return the history row to be added, if it moved."""
    row = locked.dispatch
    if change.trigger is Trigger.CLAIM and decision.verdict is Verdict.IGNORED:
        row.published_at = None
    if decision.verdict is not Verdict.MOVED or decision.target is None:
        return None
    came_from = row.state
    _enter(locked, change, decision.target)
    row.next_step = decision.next_step
    log_move(row, came_from, change)
    return Transition(
        dispatch_id=row.id,
        state_from=came_from.value,
        state_to=row.state.value,
        trigger=change.trigger.value,
        at=locked.now,
        actor=change.actor,
        attempt=change.about or None,
        note=change.note,
    )


def _enter(locked: Locked, change: Change, target: State) -> None:
    """Write a state and all that entering it implies."""
    row = locked.dispatch
    row.published_at = None
    for column, value in _values(change, target).items():
        setattr(row, column, value)
    if row.state is State.SENDING and target is not State.SENDING:
        row.cancel_noted_by = ""
        row.cancel_noted_reason = ""
        row.finished_at = locked.now
    if target is State.AWAITING or target.is_done:
        row.finished_at = locked.now
    if target is not State.ERRORED:
        row.failure = Failure.NONE
        row.permanent = False
    if target is State.UNCONFIRMED:
        row.acknowledged_at = None
    if target is State.SUCCEEDED:
        row.delivered_attempt = next(
            (a.number for a in locked.attempts if a.evidence == Evidence.DELIVERED), None
        )
    row.state = target
    row.version += 1
    row.updated_at = locked.now


def _values(change: Change, target: State) -> Mapping[str, Any]:
    """Return what is written with a move.

    What a failed attempt brings (its text, its route's hold) stays on the attempt where another one
    was accepted: the row is not delayed, and nothing is wrong with it.
    """
    if target not in _WENT_OUT:
        return change.values
    own = {name: value for name, value in change.values.items() if name not in ("error", "hold")}
    return own if change.trigger in REPORTS else {**own, "error": ""}


def log_move(row: Dispatch, came_from: State | None, change: Change) -> None:
    """Write the one log line of a move, in the shape that every line about a dispatch has."""
    logger.info(
        "dispatch",
        extra=dispatch_fields(
            id=row.id,
            channel=row.channel.value,
            kind=row.kind,
            **{"from": came_from.value if came_from else "", "to": row.state.value},
            trigger=change.trigger.value,
            attempt=row.attempts,
            worker=row.worker,
            recipient=row.recipient_normalised,
            target=f"{row.target_type}:{row.target_id}" if row.target_type else "",
        ),
    )


def columns_of(history: Transition) -> dict[str, Any]:
    """Return a line of history as columns, for a statement that writes more than it."""
    return {
        "id": new_id(),
        "dispatch_id": history.dispatch_id,
        "state_from": history.state_from,
        "state_to": history.state_to,
        "trigger": history.trigger,
        "at": history.at,
        "actor": history.actor,
        "attempt": history.attempt,
        "note": history.note,
        "repeats": 0,
    }
