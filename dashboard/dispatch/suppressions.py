"""Suppressions: recipients to whom nothing more is handed over, why, and how that ends.

A suppression is of one source, or of all. What the sandbox says of a recipient is true of nobody,
so it suppresses none.
"""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.dialects.postgresql import Insert, insert

from dashboard.access.activity import record
from dashboard.access.models import Source
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, NotAllowed, OutOfScope, scope_filter
from dashboard.database import AnySession, new_id
from dashboard.dispatch.actions.press import ActionRefused
from dashboard.dispatch.models import Dispatch, Suppression
from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.states import Channel
from dashboard.providers.base import Event, Outcome, OutcomeKind
from dashboard.providers.error_codes import advice_for

SHOWN = 200
REASON_LIMIT = 500
SANDBOX = "sandbox"
NOT_HANDED_OVER = "It was not handed over: nothing more goes to its recipient."
# Mailboxes that are gone for good (RFC 3463); a full or blocked one may take the next message.
_GONE = re.compile(r"(?:^|\s)5\.1\.(?:1|3|6|10)$")


def is_suppressed() -> ColumnElement[bool]:
    """Return the condition that nothing more goes to the recipient of a row of `Dispatch`."""
    # Two looks, each to its place in the index; one look for either source walks along it.
    return or_(
        _stands(Suppression.source_id == Dispatch.source_id),
        _stands(Suppression.source_id.is_(None)),
    )


def _stands(of_source: ColumnElement[bool]) -> ColumnElement[bool]:
    return (
        select(Suppression.id)
        .where(
            of_source,
            Suppression.channel == Dispatch.channel,
            Suppression.recipient_normalised == Dispatch.recipient_normalised,
            Suppression.lifted_at.is_(None),
        )
        .correlate(Dispatch)
        .exists()
    )


def ends_by(outcome: Outcome, route: str) -> bool:
    """Return whether an answer says that nothing will ever arrive at its recipient."""
    return outcome.kind is OutcomeKind.PERMANENT and outcome.suppress and route != SANDBOX


def ends_by_report(report: StoredReport, channel: Channel) -> bool:
    """Return whether a report says that nothing will ever arrive at its recipient."""
    if report.event != Event.FAILED or report.provider == SANDBOX:
        return False
    if channel is Channel.EMAIL:
        return report.permanent and _GONE.search(report.code) is not None
    advice = advice_for(report.code)
    return advice is not None and advice.suppress


def suppress(row: Dispatch, reason: str) -> Insert:
    """Return the statement that suppresses the recipient of a dispatch for its source.

    One that was lifted counts again; one that stands stays as it is.
    """
    fresh: dict[str, Any] = {
        "reason": reason[:REASON_LIMIT],
        "dispatch_id": row.id,
        "created_at": func.clock_timestamp(),
        "lifted_at": None,
        "lifted_by": "",
    }
    statement = insert(Suppression).values(
        id=new_id(),
        source_id=row.source_id,
        channel=row.channel,
        recipient_normalised=row.recipient_normalised,
        **fresh,
    )
    return statement.on_conflict_do_update(
        constraint="uq_suppression_source_id",
        set_=fresh,
        where=Suppression.lifted_at.is_not(None),
    )


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A suppression that stands, with the name of its source; empty where it is of all."""

    suppression: Suppression
    source: str


def listed(
    session: AnySession, access: Access, *, of: uuid.UUID | None = None
) -> Sequence[Suppressed]:
    """Return the suppressions that stand, newest first: one statement.

    Args:
        of: only those that keep this dispatch from being handed over.
    """
    query = (
        select(Suppression, func.coalesce(Source.name, ""))
        .outerjoin(Source, Source.id == Suppression.source_id)
        .where(Suppression.lifted_at.is_(None), _visible(access))
        .order_by(Suppression.created_at.desc(), Suppression.id.desc())
        .limit(SHOWN)
    )
    if of is not None:
        query = query.join(
            Dispatch,
            (Dispatch.channel == Suppression.channel)
            & (Dispatch.recipient_normalised == Suppression.recipient_normalised),
        ).where(
            Dispatch.id == of,
            scope_filter(Dispatch.source_id, access, Permission.DISPATCH_READ),
            or_(Suppression.source_id == Dispatch.source_id, Suppression.source_id.is_(None)),
        )
    return [Suppressed(row[0], row[1]) for row in session.execute(query)]


def _visible(access: Access) -> ColumnElement[bool]:
    """Those of all sources are told only to who sees all sources."""
    return scope_filter(Suppression.source_id, access)


def lift(session: AnySession, suppression_id: uuid.UUID, access: Access, reason: str = "") -> None:
    """Let messages go to a recipient again. Commits.

    Raises:
        OutOfScope: when there is no such suppression for this person (404).
        NotAllowed: when the permission is missing (403).
        ActionRefused: when somebody lifted it before (409).
    """
    row = session.scalars(
        select(Suppression)
        .where(Suppression.id == suppression_id)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).first()
    if row is None:
        raise OutOfScope
    _require(access, row.source_id)
    if row.lifted_at is not None:
        by = row.lifted_by.partition(":")[2] or row.lifted_by
        raise ActionRefused(f"Already lifted by {by} at {row.lifted_at:%H:%M} UTC.")
    row.lifted_at = session.scalar(select(func.clock_timestamp()))
    row.lifted_by = access.actor
    record(
        session,
        access,
        "suppression.lift",
        "suppression",
        str(row.id),
        row.source_id,
        reason=reason.strip()[:REASON_LIMIT],
    )
    session.commit()


def _require(access: Access, source_id: uuid.UUID | None) -> None:
    """Check the permission on the source; one of all sources needs it on all of them."""
    if source_id is not None:
        access.require(Permission.SUPPRESSION_LIFT, source_id)
    elif not access.allows_everywhere(Permission.DISPATCH_LIST):
        raise OutOfScope
    elif not access.allows_everywhere(Permission.SUPPRESSION_LIFT):
        raise NotAllowed("You need the permission suppression:lift. Ask an administrator.")
