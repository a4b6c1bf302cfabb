"""overview(): everything that the page of one dispatch shows, in seven statements at most.

Reads only, within the scope. `stamp()` is the one cheap question of the live refresh.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, and_, case, func, or_, select
from sqlalchemy.orm import aliased, joinedload

from dashboard.access.models import Activity
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, OutOfScope, scope_filter
from dashboard.database import AnySession
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import Attempt, Dispatch, RoutePause, Transition
from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.states import WAITING, Hold, State
from dashboard.settings import Settings
from dashboard.workers.liveness import is_alive
from dashboard.workers.models import Worker

RELATED = 20
AHEAD_COUNTED = 1000
# Far more than any dispatch has; a broken provider that reports for ever must not fill the page.
MOST_LINES = 500


@dataclass(frozen=True, slots=True)
class CarriedFile:
    """A file of the dispatch, and under which content id if it is inline."""

    attachment: Attachment
    inline: bool
    content_id: str


@dataclass(frozen=True, slots=True)
class Overview:
    """All that is known about one dispatch; lists are oldest first, `related` newest first.

    Attributes:
        ahead: how many are due before it, counted up to a thousand; None where it does not wait.
        workers: how many workers live on its queue; None where it does not wait.
        hold_reason: why its route is paused, where that holds it.
    """

    row: Dispatch
    now: datetime
    files: Sequence[CarriedFile]
    attempts: Sequence[Attempt]
    transitions: Sequence[Transition]
    reports: Sequence[StoredReport]
    activities: Sequence[Activity]
    related: Sequence[Dispatch]
    ahead: int | None = None
    workers: int | None = None
    hold_reason: str = ""

    @property
    def cancelled(self) -> Transition | None:
        """The line of history that cancelled it, if it is cancelled."""
        if self.row.state is not State.CANCELLED:
            return None
        cancelled = [one for one in self.transitions if one.state_to == State.CANCELLED]
        return cancelled[-1] if cancelled else None

    @property
    def replaced_by(self) -> Dispatch | None:
        """The dispatch that replaced it, where the viewer may see it."""
        return self._related(self.row.replaced_by_id)

    @property
    def replaces(self) -> Dispatch | None:
        """The dispatch that it replaces, where the viewer may see it."""
        return self._related(self.row.replaces_id)

    @property
    def others(self) -> list[Dispatch]:
        """The other dispatches of its target."""
        own = (self.row.target_type, self.row.target_id)
        return [one for one in self.related if (one.target_type, one.target_id) == own != ("", "")]

    def _related(self, wanted: uuid.UUID | None) -> Dispatch | None:
        return next((one for one in self.related if one.id == wanted), None)


def overview(
    session: AnySession, dispatch_id: uuid.UUID, access: Access, settings: Settings
) -> Overview:
    """Load all that the page of a dispatch shows.

    Raises:
        OutOfScope: when there is no such dispatch for this person.
    """
    row, now, ahead, workers, hold_reason = _row(session, dispatch_id, access, settings)
    return Overview(
        row=row,
        now=now,
        ahead=ahead,
        workers=workers,
        hold_reason=hold_reason or "",
        files=_files(session, row),
        attempts=_lines(session, Attempt, row, Attempt.number),
        transitions=_lines(session, Transition, row, Transition.at, Transition.id),
        reports=_lines(session, StoredReport, row, StoredReport.received_at, StoredReport.id),
        activities=_activities(session, row),
        related=_related(session, row, access),
    )


def _row(
    session: AnySession, dispatch_id: uuid.UUID, access: Access, settings: Settings
) -> tuple[Dispatch, datetime, int | None, int | None, str | None]:
    waits = Dispatch.state.in_(WAITING)
    query = (
        select(
            Dispatch,
            func.clock_timestamp(),
            case((waits, _ahead())),
            case((waits, _workers(settings))),
            case((Dispatch.hold == Hold.ROUTE, _hold_reason())),
        )
        .options(joinedload(Dispatch.source), joinedload(Dispatch.email), joinedload(Dispatch.sms))
        .where(Dispatch.id == dispatch_id, _visible(access))
        .execution_options(populate_existing=True)
    )
    found = session.execute(query).first()
    if found is None:
        raise OutOfScope
    return found[0], found[1], found[2], found[3], found[4]


def _workers(settings: Settings) -> ColumnElement[int]:
    gone_after = timedelta(seconds=settings.worker_gone_seconds)
    return (
        select(func.count())
        .select_from(Worker)
        .where(
            is_alive(func.clock_timestamp(), gone_after),
            Worker.queues.contains(func.to_jsonb(Dispatch.queue)),
        )
        .correlate(Dispatch)
        .scalar_subquery()
    )


def _hold_reason() -> ColumnElement[str | None]:
    return (
        select(func.max(RoutePause.reason))
        .where(RoutePause.route == Dispatch.provider, RoutePause.resumed_at.is_(None))
        .correlate(Dispatch)
        .scalar_subquery()
    )


def _ahead() -> ColumnElement[int]:
    other = aliased(Dispatch)
    ahead = (
        select(other.id)
        .where(
            other.queue == Dispatch.queue,
            other.state.in_(WAITING),
            other.hold == Hold.NONE,
            other.due_at < Dispatch.due_at,
        )
        .limit(AHEAD_COUNTED)
        .correlate(Dispatch)
        .subquery()
    )
    return select(func.count()).select_from(ahead).scalar_subquery()


def _visible(access: Access) -> ColumnElement[bool]:
    return scope_filter(Dispatch.source_id, access, Permission.DISPATCH_READ)


def _lines(session: AnySession, table: Any, row: Dispatch, *order: Any) -> Sequence[Any]:
    query = select(table).where(table.dispatch_id == row.id).order_by(*order).limit(MOST_LINES)
    lines: Sequence[Any] = session.scalars(query.execution_options(populate_existing=True)).all()
    return lines


def _files(session: AnySession, row: Dispatch) -> list[CarriedFile]:
    if not row.file_count:
        return []
    query = (
        select(DispatchAttachment, Attachment)
        .join(Attachment, Attachment.id == DispatchAttachment.attachment_id)
        .where(DispatchAttachment.dispatch_id == row.id)
        .order_by(DispatchAttachment.position)
    )
    return [
        CarriedFile(attachment, link.inline, link.content_id)
        for link, attachment in session.execute(query)
    ]


def _activities(session: AnySession, row: Dispatch) -> Sequence[Activity]:
    query = (
        select(Activity)
        .where(Activity.subject_type == "dispatch", Activity.subject_id == str(row.id))
        .order_by(Activity.at, Activity.id)
        .limit(MOST_LINES)
    )
    return session.scalars(query).all()


def _related(session: AnySession, row: Dispatch, access: Access) -> Sequence[Dispatch]:
    linked = [one for one in (row.replaced_by_id, row.replaces_id) if one]
    conditions: list[ColumnElement[bool]] = [Dispatch.id.in_(linked)] if linked else []
    if row.target_type and row.target_id:
        target = (Dispatch.target_type == row.target_type, Dispatch.target_id == row.target_id)
        conditions.append(and_(*target))
    if not conditions:
        return []
    query = (
        select(Dispatch)
        .where(or_(*conditions), Dispatch.id != row.id, _visible(access))
        .order_by(Dispatch.created_at.desc(), Dispatch.id.desc())
        .limit(RELATED)
    )
    return session.scalars(query).all()


def stamp(session: AnySession, dispatch_id: uuid.UUID, access: Access) -> str:
    """Return a text that changes whenever the page of a dispatch would: one statement.

    Raises:
        OutOfScope: when there is no such dispatch for this person.
    """
    attempts = (
        select(
            func.concat_ws(
                ".",
                func.count(),
                func.count(Attempt.handed_over_at),
                func.count(Attempt.finished_at),
                func.sum(Attempt.evidence + Attempt.look_ups),
            )
        )
        .where(Attempt.dispatch_id == Dispatch.id)
        .correlate(Dispatch)
        .scalar_subquery()
    )
    reports = (
        select(func.concat_ws(".", func.count(), func.sum(StoredReport.repeats)))
        .where(StoredReport.dispatch_id == Dispatch.id)
        .correlate(Dispatch)
        .scalar_subquery()
    )
    query = select(
        func.concat_ws(
            "-",
            Dispatch.version,
            func.extract("epoch", Dispatch.updated_at),
            Dispatch.hold,
            Dispatch.replaced_by_id,
            attempts,
            reports,
            case((Dispatch.state.in_(WAITING), _ahead())),
        )
    ).where(Dispatch.id == dispatch_id, _visible(access))
    found = session.scalar(query)
    if found is None:
        raise OutOfScope
    return str(found)
