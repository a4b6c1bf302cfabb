"""check(): a person's "Check with provider": asks at once about one dispatch, changes what is said.

The lock is not held while the provider is asked; what it says is applied like any other report.
"""

import uuid
from dataclasses import dataclass, replace

from dashboard.access.activity import record
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import AnySession
from dashboard.dispatch.actions.press import ActionRefused, Press, take
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.rendering import ContentMissing, render_sms
from dashboard.dispatch.reports.applying import receive
from dashboard.dispatch.reports.polling import Answering
from dashboard.dispatch.states import LABELS, Channel, State
from dashboard.providers.base import Provider, Sms
from dashboard.providers.registry import RouteInvalid, route
from dashboard.settings import current

CHECKED = (State.AWAITING, State.UNCONFIRMED, State.DELAYED, State.ERRORED)


@dataclass(frozen=True, slots=True)
class _Question:
    """Which attempt is asked about, and whom; the message where it has no id at the provider."""

    row: Dispatch
    attempt: Attempt
    provider: Answering
    message: Sms | None


def can_check(row: Dispatch) -> bool:
    """Return whether there is somebody to ask about a dispatch; asks the database nothing.

    Email is left out before its route is built: no email service says what became of one message.
    """
    if row.channel is not Channel.SMS or row.state not in CHECKED or not row.attempts:
        return False
    try:
        return isinstance(_route_of(row), Answering)
    except RouteInvalid:
        return False


def check(
    session: AnySession,
    dispatch_id: uuid.UUID,
    access: Access,
    *,
    version: int | None = None,
) -> str:
    """Ask the provider about one dispatch now; return what it said, in words. Commits.

    Raises:
        ActionRefused: where there is nothing to ask about, or nobody to ask.
        OutOfScope, NotAllowed: see `actions.take`.
    """
    question = _question(session, Press(dispatch_id, access, version))
    row = question.row
    record(session, access, "dispatch.check", "dispatch", str(row.id), row.source_id)
    session.commit()
    return _ask(session, question)


def rehearse_check(session: AnySession, press: Press) -> str:
    """Return in a sentence what a check would do. Asks nobody and rolls back.

    Raises:
        ActionRefused, OutOfScope, NotAllowed: as the check itself would.
    """
    try:
        question = _question(session, press)
        state = LABELS[question.row.state].lower()
        return f"It is {state}; {question.provider.name} would be asked what became of it."
    finally:
        session.rollback()


def _question(session: AnySession, press: Press) -> _Question:
    locked = take(session, press, Permission.DISPATCH_CHECK)
    row = locked.dispatch
    attempt = locked.attempts[-1] if locked.attempts else None
    if row.state not in CHECKED or attempt is None:
        raise ActionRefused("There is nothing to ask the provider about now.")
    provider = _provider_of(row)
    message = None if attempt.provider_message_id else _message(session, row)
    return _Question(row, attempt, provider, message)


def _route_of(row: Dispatch) -> Provider:
    return route(row.provider, current(), channel=row.channel.value)


def _provider_of(row: Dispatch) -> Answering:
    try:
        found = _route_of(row)
    except RouteInvalid as error:
        raise ActionRefused(str(error)) from error
    if not isinstance(found, Answering):
        raise ActionRefused(f"The route {row.provider} cannot be asked about a message.")
    return found


def _message(session: AnySession, row: Dispatch) -> Sms:
    try:
        message = render_sms(session, row)
    except ContentMissing as error:
        raise ActionRefused(str(error)) from error
    if message is None:
        raise ActionRefused("It has no id at the provider, so it cannot be asked about.")
    return message


def _ask(session: AnySession, asked: _Question) -> str:
    attempt = asked.attempt
    if asked.message is None:
        fetched = asked.provider.fetch_status(attempt.provider_message_id)
        report, detail = fetched.report, fetched.detail
    else:
        answer = asked.provider.look_up(asked.message, attempt.claimed_at)
        if answer.answered and answer.report is None:
            return "The provider does not have it."
        report, detail = answer.report, answer.detail
    if report is None:
        return f"The provider cannot say now. {detail}".strip()
    receive(session, [replace(report, key=f"{asked.row.id}.{attempt.number}")])
    return f"The provider says: {report.raw.get('status') or report.event.value}."
