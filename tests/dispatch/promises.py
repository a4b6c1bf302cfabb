"""What the protocol of sending promises after every step; `protocol.py` makes the steps."""

import uuid
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from itertools import pairwise
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session, scoped_session

from dashboard.database import db
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.states import Failure, NextStep, State, Trigger
from dashboard.providers.base import Event, Outcome, OutcomeKind


class Violation(AssertionError):
    """The protocol broke a promise; the message says which."""


def require(holds: bool, promise: str, *details: object) -> None:
    """Raise a violation that names the promise unless it holds."""
    if not holds:
        raise Violation(f"{promise}: {', '.join(map(str, details))}")


class Fate(Enum):
    """What became of an accepted message, as the final reports that are true of it."""

    DELIVERED = (Event.DELIVERED,)
    FAILED = (Event.FAILED,)
    BOUNCED = (Event.FAILED, "for good")
    DELIVERED_THEN_BOUNCED = (Event.DELIVERED, Event.FAILED)

    @property
    def events(self) -> tuple[Event, ...]:
        """The final reports that are true."""
        return tuple(one for one in self.value if isinstance(one, Event))

    @property
    def arrived(self) -> bool:
        """Whether a person has it."""
        return self is Fate.DELIVERED


FINAL = {
    Evidence.DELIVERED: (Fate.DELIVERED, Fate.DELIVERED_THEN_BOUNCED),
    Evidence.FAILED: (Fate.FAILED,),
    Evidence.BOUNCED: (Fate.BOUNCED, Fate.DELIVERED_THEN_BOUNCED),
}


class Promises:
    """Compares the rows with the truth that the provider keeps.

    Attributes:
        fates: what became of the messages about which a final report was asked for.
        accepted: the attempts whose message the provider accepted, per dispatch.
        late_calls: how many calls came although their mark was too old, per dispatch.
    """

    def __init__(
        self, accepted: dict[uuid.UUID, list[int]], fates: dict[tuple[uuid.UUID, int], Fate]
    ) -> None:
        self.accepted = accepted
        self.fates = fates
        self.late_calls: Counter[uuid.UUID] = Counter()
        self._seen: dict[uuid.UUID, tuple[int, int]] = {}

    def examine(self) -> None:
        """Check every promise that holds after every step."""
        for row in db.session.scalars(select(Dispatch)).all():
            attempts = _of(db.session, Attempt, row.id, Attempt.number)
            history = _of(db.session, Transition, row.id, Transition.id)
            self._examine_truth(row, attempts)
            _examine_summary(row, attempts)
            self._examine_history(row, history)
            self._examine_copies(row, history)

    def _examine_truth(self, row: Dispatch, attempts: Sequence[Attempt]) -> None:
        accepted = self.accepted.get(row.id, [])
        unknown = [
            one.number
            for one in attempts
            if one.number in accepted and Evidence(one.evidence) in (Evidence.NONE, Evidence.ABSENT)
        ]
        require(not unknown, "an accepted attempt is never thought absent", row.state, unknown)
        for one in attempts:
            if (final := FINAL.get(Evidence(one.evidence))) is not None:
                fate = self.fates.get((row.id, one.number))
                require(fate in final, "only what is true is believed", one.evidence, fate)
        failed = (Evidence.FAILED, Evidence.BOUNCED)
        known = {one.number for one in attempts if Evidence(one.evidence) in failed}
        if set(accepted) - known and row.state is not State.SENDING:
            require(
                row.maybe_sent or row.proven,
                "a row never contradicts the truth unmarked",
                row.state,
                accepted,
            )
        if row.state in (State.AWAITING, State.SENT):
            require(bool(accepted), "what is called sent was accepted", row.state)

    def examine_ends(self) -> None:
        """Check that each row is where the whole truth puts it, once all of it was reported."""
        for row in db.session.scalars(select(Dispatch)).all():
            fates = [self.fates.get((row.id, one)) for one in self.accepted.get(row.id, [])]
            arrived = any(one is not None and one.arrived for one in fates)
            if row.state is not State.CANCELLED:
                delivered = row.state is State.SUCCEEDED
                require(delivered is arrived, "what arrived is delivered", row.state, fates)
            if row.state is State.ERRORED and not row.maybe_sent:
                require(None not in fates, "no open message behind an error", row.state, fates)

    def _examine_history(self, row: Dispatch, history: Sequence[Transition]) -> None:
        require(history[0].state_from == "", "history begins with the request", history[0])
        for earlier, later in pairwise(history):
            require(
                later.state_from == earlier.state_to, "history rows chain", earlier.id, later.id
            )
        require(history[-1].state_to == row.state.value, "history ends where the row is", row.state)
        version, lines = self._seen.get(row.id, (row.version, len(history)))
        require(
            row.version - version >= len(history) - lines, "version grows with each move", row.id
        )
        self._seen[row.id] = (row.version, len(history))

    def _examine_copies(self, row: Dispatch, history: Sequence[Transition]) -> None:
        sent_again = sum(
            one.trigger == Trigger.DOUBT.value and one.state_to == State.DELAYED.value
            for one in history
        )
        presses = sum(
            one.trigger == Trigger.RETRY.value and one.actor.startswith("user:") for one in history
        )
        copies = len(self.accepted.get(row.id, []))
        allowed = 1 + sent_again + presses + self.late_calls[row.id]
        require(copies <= allowed, "no second copy without a reason", copies, allowed, row.state)


def _of(
    session: scoped_session[Session], model: Any, dispatch_id: uuid.UUID, order: Any
) -> list[Any]:
    return list(
        session.scalars(select(model).where(model.dispatch_id == dispatch_id).order_by(order))
    )


def _examine_summary(row: Dispatch, attempts: Sequence[Attempt]) -> None:
    known = [Evidence(one.evidence) for one in attempts]
    if row.state is not State.SENDING:
        maybe = any(one.may_have_arrived for one in known)
        require(row.maybe_sent is maybe, "maybe_sent says what the attempts say", row.state, known)
        require(row.cancel_noted_by == "", "leaving sending clears a noted cancel", row.state)
    proven = any(one.is_accepted or one is Evidence.DELIVERED for one in known)
    require(row.proven is proven, "proven says what the attempts say", row.state, known)
    require(len(attempts) == row.attempts, "attempts are counted", len(attempts), row.attempts)
    if row.state is not State.ERRORED:
        require(row.failure is Failure.NONE, "only errored rows have a failure", row.failure)
    if row.state not in (State.DELAYED, State.QUEUED):
        require(row.next_step is NextStep.SEND, "look_up exists only in delayed", row.state)


UNFENCED = {"maybe_sent", "proven", "provider_message_id"}


def require_fenced(outcome: Outcome, before: dict[str, object], after: dict[str, object]) -> None:
    """Check that an outcome which comes late moves a row only by settling."""
    changed = {name for name in before if before[name] != after[name]} - UNFENCED
    if not changed:
        return
    came_from, went_to = before["state"], after["state"]
    settled = outcome.kind is OutcomeKind.ACCEPTED and went_to in (State.AWAITING, State.SENT)
    waits = came_from is State.UNCONFIRMED or before["next_step"] is NextStep.LOOK_UP
    answered = waits and went_to in (State.DELAYED, State.ERRORED) and not after["maybe_sent"]
    require(
        settled or answered,
        "a late outcome moves a row only by settling",
        outcome.kind,
        came_from,
        went_to,
        changed,
    )
