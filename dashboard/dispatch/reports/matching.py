"""Finds the attempt that a report speaks of: by the provider's id, else by our own key.

Never by an address or a number, and never by an empty id. The dispatch is locked on the way.
"""

import re
import uuid
from dataclasses import dataclass

from sqlalchemy import Select, func, select

from dashboard.database import AnySession
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.transitions import Locked, attempts_of

# Other writings of an id, or dashes alone, are not ours; \d would take the digits of every script.
_KEY = re.compile(
    r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:\.([0-9]{1,6}))?", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True, slots=True)
class Match:
    """A locked dispatch and the attempts that a report speaks of (several share a provider id).

    Attributes:
        mismatch: why nothing may be changed although the key names this dispatch.
    """

    locked: Locked
    attempts: tuple[Attempt, ...] = ()
    mismatch: str = ""


def find(session: AnySession, report: StoredReport) -> Match | None:
    """Lock the dispatch that a report speaks of and say which attempts; None where there is none.

    Two statements where the provider's id is known. Raises OperationalError where somebody else
    holds the row: the caller tries again a little later.
    """
    by_id = _by_provider_id(session, report)
    if by_id is not None:
        return by_id
    key = _KEY.fullmatch(report.tracking)
    return _by_key(session, report, uuid.UUID(key[1]), key[2]) if key else None


def _lock(session: AnySession, query: Select[uuid.UUID]) -> Locked | None:
    row = session.execute(
        select(Dispatch, func.clock_timestamp())
        .where(Dispatch.id.in_(query))
        .order_by(Dispatch.id)
        .limit(1)
        .with_for_update(of=Dispatch, nowait=True)
        .execution_options(populate_existing=True)
    ).first()
    if row is None:
        return None
    dispatch, now = row
    return Locked(dispatch, attempts_of(session, [dispatch.id]).get(dispatch.id, []), now)


def _by_provider_id(session: AnySession, report: StoredReport) -> Match | None:
    if not report.provider_message_id:
        return None
    named = select(Attempt.dispatch_id).where(
        Attempt.provider_message_id == report.provider_message_id,
        Attempt.route == report.provider,
    )
    locked = _lock(session, named)
    if locked is None:
        return None
    attempts = [
        one
        for one in locked.attempts
        if one.provider_message_id == report.provider_message_id and one.route == report.provider
    ]
    return Match(locked, tuple(attempts))


def _by_key(
    session: AnySession, report: StoredReport, dispatch_id: uuid.UUID, number: str | None
) -> Match | None:
    """Match by our key; store the provider's id on the attempt if it has none yet."""
    locked = _lock(session, select(Dispatch.id).where(Dispatch.id == dispatch_id))
    if locked is None:
        return None
    if number is None and len(locked.attempts) > 1:
        return Match(locked, mismatch="The key names no attempt, and there were several.")
    wanted = int(number) if number else 1
    attempt = next((one for one in locked.attempts if one.number == wanted), None)
    if attempt is None:
        return Match(locked, mismatch=f"There is no attempt {wanted} of this dispatch.")
    if attempt.provider_message_id and report.provider_message_id:
        return Match(locked, mismatch="The key's attempt has another id at this provider.")
    if attempt.route != report.provider:
        return Match(locked, mismatch=f"Attempt {wanted} went out by {attempt.route}.")
    if report.provider_message_id:
        attempt.provider_message_id = report.provider_message_id
        locked.dispatch.provider_message_id = report.provider_message_id
    return Match(locked, (attempt,))
