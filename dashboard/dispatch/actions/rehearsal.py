"""rehearse(): what a press would do, without doing it. Asks the very rules that the press asks.

Changes nothing: whatever was locked is given back.
"""

from collections.abc import Callable

from dashboard.access.permissions import Permission
from dashboard.database import AnySession
from dashboard.dispatch.actions.press import (
    ActionRefused,
    ConfirmationNeeded,
    Press,
    expect_moved,
    take,
)
from dashboard.dispatch.actions.resend import MAY_ARRIVE_TWICE, needs_confirmation
from dashboard.dispatch.actions.retry import MAY_HAVE_ARRIVED, require_files
from dashboard.dispatch.decisions import Decision, Verdict, decide
from dashboard.dispatch.models import Dispatch, EmailContent, SmsContent
from dashboard.dispatch.states import LABELS, Channel, Trigger
from dashboard.dispatch.transitions import Change, Locked, facts_of

Check = Callable[[AnySession, Dispatch, Press], None]


def rehearse(session: AnySession, press: Press, trigger: Trigger) -> str:
    """Return in a sentence what a retry, cancel or resend (`replace`) would do. Rolls back.

    Raises:
        ActionRefused, ConfirmationNeeded, OutOfScope, NotAllowed: as the press itself would.
    """
    permission, check = _PRESSES[trigger]
    try:
        locked = take(session, press, permission)
        check(session, locked.dispatch, press)
        decision = _decide(locked, press, trigger)
        expect_moved(decision)
        return _sentence(locked.dispatch, trigger, decision)
    finally:
        session.rollback()


def _decide(locked: Locked, press: Press, trigger: Trigger) -> Decision:
    change = Change(trigger, press.access.actor)
    return decide(locked.dispatch.state, trigger, facts_of(locked, change))


def _check_retry(session: AnySession, row: Dispatch, press: Press) -> None:
    if row.maybe_sent and not press.confirmed:
        raise ConfirmationNeeded(MAY_HAVE_ARRIVED)
    require_files(session, row)


def _check_resend(session: AnySession, row: Dispatch, press: Press) -> None:
    if needs_confirmation(row) and not press.confirmed:
        raise ConfirmationNeeded(MAY_ARRIVE_TWICE)
    require_files(session, row)
    content = EmailContent if row.channel is Channel.EMAIL else SmsContent
    if session.get(content, row.id) is None:
        raise ActionRefused("Its content was deleted when its retention ended; send a new one.")


def _check_cancel(_session: AnySession, _row: Dispatch, _press: Press) -> None:
    """Nothing but its state decides whether a dispatch can be cancelled."""


_PRESSES: dict[Trigger, tuple[Permission, Check]] = {
    Trigger.RETRY: (Permission.DISPATCH_RETRY, _check_retry),
    Trigger.CANCEL: (Permission.DISPATCH_CANCEL, _check_cancel),
    Trigger.REPLACE: (Permission.DISPATCH_RESEND, _check_resend),
}


def _sentence(row: Dispatch, trigger: Trigger, decision: Decision) -> str:
    now = LABELS[row.state].lower()
    if decision.verdict is Verdict.NOTED:
        return f"It is {now}; the cancel would be noted, and stops it if it is not out yet."
    then = LABELS[decision.target].lower() if decision.target else now
    if trigger is Trigger.REPLACE:
        return f"A new dispatch would be queued; this one is {now} and would be {then}."
    return f"It is {now} and would be {then}."
