"""check(): a person's "Check with provider": asks at once about one dispatch, changes what is said.

The lock is not held while the provider is asked; what it says is applied like any other report.
"""

import uuid
from dataclasses import replace

from dashboard.access.activity import record
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import AnySession
from dashboard.dispatch.actions import ActionRefused, Press, take
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.polling import Answering
from dashboard.dispatch.rendering import ContentMissing, render_sms
from dashboard.dispatch.reports import receive
from dashboard.dispatch.states import Channel, State
from dashboard.providers.base import Provider, Sms
from dashboard.providers.registry import RouteInvalid, route
from dashboard.settings import current

CHECKED = (State.AWAITING, State.UNCONFIRMED, State.DELAYED, State.ERRORED)


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
    locked = take(session, Press(dispatch_id, access, version), Permission.DISPATCH_CHECK)
    row = locked.dispatch
    attempt = locked.attempts[-1] if locked.attempts else None
    if row.state not in CHECKED or attempt is None:
        raise ActionRefused("There is nothing to ask the provider about now.")
    provider = _provider_of(row)
    record(session, access, "dispatch.check", "dispatch", str(row.id), row.source_id)
    message = None if attempt.provider_message_id else _message(session, row)
    session.commit()
    return _ask(session, row.id, attempt, provider, message)


def _provider_of(row: Dispatch) -> Answering:
    try:
        found: Provider = route(row.provider, current(), channel=row.channel.value)
    except RouteInvalid as error:
        raise ActionRefused(str(error)) from error
    if not isinstance(found, Answering):
        raise ActionRefused(f"The route {row.provider} cannot be asked about a message.")
    return found


def _message(session: AnySession, row: Dispatch) -> Sms | None:
    if row.channel is not Channel.SMS:
        return None
    try:
        return render_sms(session, row)
    except ContentMissing as error:
        raise ActionRefused(str(error)) from error


def _ask(
    session: AnySession,
    dispatch_id: uuid.UUID,
    attempt: Attempt,
    provider: Answering,
    message: Sms | None,
) -> str:
    if attempt.provider_message_id:
        fetched = provider.fetch_status(attempt.provider_message_id)
        report, detail = fetched.report, fetched.detail
    elif message is not None:
        answer = provider.look_up(message, attempt.claimed_at)
        if answer.answered and answer.report is None:
            return "The provider does not have it."
        report, detail = answer.report, answer.detail
    else:
        raise ActionRefused("It has no id at the provider, so it cannot be asked about.")
    if report is None:
        return f"The provider cannot say now. {detail}".strip()
    receive(session, [replace(report, key=f"{dispatch_id}.{attempt.number}")])
    return f"The provider says: {report.raw.get('status') or report.event.value}."
