"""One row of the list of dispatches, as it is written: in words, masked, with its one button."""

from dataclasses import dataclass
from datetime import datetime

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.dispatch.actions.buttons import Action, Button
from dashboard.dispatch.actions.check import can_check
from dashboard.dispatch.actions.situation import Surroundings, situation_of
from dashboard.dispatch.ladder import MAXIMUM_TRIES
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import State
from dashboard.dispatch.story.sentence import diagnose
from dashboard.dispatch.story.wording import mask
from dashboard.pages.presentation import brief

PERMISSIONS = {
    Action.RETRY: Permission.DISPATCH_RETRY,
    Action.RESEND: Permission.DISPATCH_RESEND,
    Action.CANCEL: Permission.DISPATCH_CANCEL,
    Action.ACKNOWLEDGE: Permission.DISPATCH_CANCEL,
    Action.CHECK: Permission.DISPATCH_CHECK,
}


@dataclass(frozen=True, slots=True)
class Row:
    """What a line of the list says.

    Attributes:
        at: when what it says happened.
        by: the route and the worker, as far as there were any.
        tries: "2 of 12" while it is tried, else the number of attempts.
        next_at: when it is tried next.
        segments: how many an SMS goes out in; 0 for an email.
        button: the one to press, if this person may press it.
    """

    dispatch: Dispatch
    recipient: str
    happened: str
    at: datetime
    by: str
    tries: str
    next_at: datetime | None
    segments: int
    button: Button | None


def row_of(row: Dispatch, now: datetime, access: Access) -> Row:
    """Return a dispatch as its line in the list."""
    around = Surroundings(now=now, say_time=brief, can_check=can_check(row))
    diagnosis = diagnose(situation_of(row, around))
    first = next(iter(diagnosis.buttons), None)
    allowed = first is not None and access.allows(PERMISSIONS[first.action], row.source_id)
    waits = row.state in (State.DELAYED, State.QUEUED) and row.due_at > now
    return Row(
        dispatch=row,
        recipient=recipient_for(row, access),
        happened=diagnosis.short,
        at=row.updated_at,
        by=", ".join(part for part in (row.provider, row.worker) if part),
        tries=f"{row.tries} of {MAXIMUM_TRIES}" if row.tries else str(row.attempts),
        next_at=row.due_at if waits else None,
        segments=row.sms.segments if row.sms else 0,
        button=first if allowed else None,
    )


def recipient_for(row: Dispatch, access: Access) -> str:
    """Return the recipient, masked for those who may not see it."""
    if access.allows(Permission.RECIPIENT_REVEAL, row.source_id):
        return row.recipient
    return mask(row.recipient)
