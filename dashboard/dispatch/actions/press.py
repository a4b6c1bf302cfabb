"""What the presses of a person have in common: find, check, lock, move, note, commit, publish.

Each press is a module of its own: `retry.py`, `cancel.py`, `resend.py`, `acknowledge.py`.
"""

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, OutOfScope
from dashboard.database import AnySession
from dashboard.dispatch.decisions import Decision, Verdict
from dashboard.dispatch.models import Dispatch, Replacement, Transition
from dashboard.dispatch.states import LABELS
from dashboard.dispatch.transitions import Locked, lock


class ActionRefused(Exception):
    """A press came too late or may not be; the sentence says what happened and what to do.

    Attributes:
        newest: the dispatch that replaced this one, where that is the reason.
    """

    status = 409

    def __init__(self, sentence: str, *, newest: uuid.UUID | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.newest = newest


class ConfirmationNeeded(ActionRefused):
    """The press may make a second copy arrive; it needs a confirmation."""


@dataclass(frozen=True, slots=True)
class Press:
    """Who presses on which dispatch, as they saw it.

    Attributes:
        version: of the page that was pressed on; None skips the check (API, CLI).
        confirmed: that a second copy may arrive was read and confirmed.
    """

    dispatch_id: uuid.UUID
    access: Access
    version: int | None = None
    confirmed: bool = False


def take(session: AnySession, press: Press, permission: Permission) -> Locked:
    """Check the permission and the scope, and lock the dispatch for a press.

    Raises:
        OutOfScope: when there is no such dispatch for this person (404).
        NotAllowed: when the permission is missing (403).
        ActionRefused: when somebody changed it since the page was made (409).
    """
    source_id = session.scalar(select(Dispatch.source_id).where(Dispatch.id == press.dispatch_id))
    if source_id is None:
        raise OutOfScope
    press.access.require(permission, source_id)
    locked = lock(session, [press.dispatch_id])
    if not locked:
        raise OutOfScope
    _check_replaced(session, locked[0])
    _check_version(session, locked[0], press)
    return locked[0]


def _check_replaced(session: AnySession, locked: Locked) -> None:
    if locked.dispatch.replaced_by_id is None:
        return
    replaced = session.get(Replacement, locked.dispatch.id)
    newest = newest_of(session, locked.dispatch)
    who = f" by {_name(replaced.by)} at {_clock(replaced.at)}" if replaced else ""
    raise ActionRefused(f"Already resent{who}. Act on the one that replaced it.", newest=newest)


def newest_of(session: AnySession, row: Dispatch) -> uuid.UUID:
    """Return the end of a chain of replacements."""
    newest = row.id
    following = row.replaced_by_id
    while following is not None:
        newest = following
        following = session.scalar(select(Dispatch.replaced_by_id).where(Dispatch.id == newest))
    return newest


def _check_version(session: AnySession, locked: Locked, press: Press) -> None:
    row = locked.dispatch
    if press.version is None or press.version == row.version:
        return
    last = session.scalars(
        select(Transition)
        .where(Transition.dispatch_id == row.id)
        .order_by(Transition.id.desc())
        .limit(1)
    ).first()
    who = f" by {_name(last.actor)} at {_clock(last.at)}" if last else ""
    raise ActionRefused(
        f"It changed while you looked at it: {LABELS[row.state].lower()} now{who}. Look again."
    )


def _clock(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%H:%M} UTC"


def _name(actor: str) -> str:
    """Return an actor as a person reads it: without the word that says what kind it is."""
    return actor.partition(":")[2] or actor


def expect_moved(decision: Decision) -> None:
    """Turn a refusal of the rules into one that the person reads.

    Raises:
        ActionRefused: with the rules' sentence.
    """
    if decision.verdict is Verdict.REFUSED:
        raise ActionRefused(decision.sentence)
