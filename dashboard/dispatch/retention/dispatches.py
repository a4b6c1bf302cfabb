"""Deletes bodies and dispatches that the retention settings have outlived, and what follows them.

Bodies go before dispatches. A row that waits, is being sent or awaits its report is never touched,
however old it is. The age counts from the last thing that happened to a dispatch.
"""

import uuid
from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, delete, exists, or_, select
from sqlalchemy.orm import aliased

from dashboard.database import AnySession, is_one_of
from dashboard.dispatch.models import Dispatch, EmailContent, Idempotency, Replacement, SmsContent
from dashboard.dispatch.reports.models import ReportKey, ReportOutcome, StoredReport
from dashboard.dispatch.retention.slices import Pruning, in_batches
from dashboard.dispatch.states import State

WENT_OUT = (State.SENT, State.SUCCEEDED)
DID_NOT = (State.ERRORED, State.UNCONFIRMED, State.CANCELLED)
IDEMPOTENCY_KEPT = timedelta(days=7)


def prune_bodies(session: AnySession, run: Pruning) -> None:
    """Delete the bodies of dispatches that nothing happened to for `CONTENT_RETENTION_DAYS`."""
    content = timedelta(days=run.settings.content_retention_days)
    for table in (EmailContent, SmsContent):
        outlived = and_(
            _untouched_for(run, content, (*WENT_OUT, *DID_NOT)),
            exists().where(table.dispatch_id == Dispatch.id),
        )

        def remove(ids: list[uuid.UUID], table: type[EmailContent | SmsContent] = table) -> None:
            session.execute(delete(table).where(is_one_of(table.dispatch_id, ids)))

        in_batches(session, run, _oldest(outlived), remove)


def prune_dispatches(session: AnySession, run: Pruning) -> None:
    """Delete what went out after `DISPATCH_RETENTION_DAYS`, the others when their bodies went.

    One that was replaced, or has copies, stays as long as these do: without it they would tell
    half a story.
    """
    went_out = timedelta(days=run.settings.dispatch_retention_days)
    others = max(went_out, timedelta(days=run.settings.content_retention_days))
    older, copy = aliased(Dispatch), aliased(Dispatch)
    outlived = and_(
        or_(_untouched_for(run, went_out, WENT_OUT), _untouched_for(run, others, DID_NOT)),
        ~exists().where(older.id == Dispatch.replaces_id),
        ~exists().where(copy.copy_of_id == Dispatch.id),
    )
    # The end of a chain can go only after its beginning: once more, while anything went.
    while in_batches(session, run, _oldest(outlived), lambda ids: _delete(session, ids)):
        pass


def prune_reports(session: AnySession, run: Pruning) -> None:
    """Delete reports that belong to no dispatch after `DISPATCH_RETENTION_DAYS`."""
    kept = timedelta(days=run.settings.dispatch_retention_days)
    query = (
        select(StoredReport.id)
        .where(
            StoredReport.dispatch_id.is_(None),
            StoredReport.outcome != ReportOutcome.PENDING,
            StoredReport.received_at <= run.now - kept,
        )
        .order_by(StoredReport.received_at)
        .with_for_update(skip_locked=True)
    )

    def remove(ids: list[uuid.UUID]) -> None:
        session.execute(delete(ReportKey).where(is_one_of(ReportKey.report_id, ids)))
        session.execute(delete(StoredReport).where(is_one_of(StoredReport.id, ids)))

    in_batches(session, run, query, remove)


def prune_idempotency(session: AnySession, run: Pruning) -> None:
    """Forget idempotency keys after seven days."""
    outlived = Idempotency.created_at <= run.now - IDEMPOTENCY_KEPT
    session.execute(delete(Idempotency).where(outlived))
    session.commit()


def _untouched_for(run: Pruning, kept: timedelta, states: tuple[State, ...]) -> ColumnElement[bool]:
    before = run.now - kept
    # The first of the two is indexed, the second is what counts.
    return and_(
        Dispatch.created_at <= before, Dispatch.updated_at <= before, Dispatch.state.in_(states)
    )


def _oldest(condition: ColumnElement[bool]) -> Select[Any]:
    return (
        select(Dispatch.id)
        .where(condition)
        .order_by(Dispatch.created_at, Dispatch.id)
        .with_for_update(skip_locked=True, of=Dispatch)
    )


def _delete(session: AnySession, ids: list[uuid.UUID]) -> None:
    """Delete dispatches; their attempts, history, reports and links to files follow them."""
    reports = select(StoredReport.id).where(is_one_of(StoredReport.dispatch_id, ids))
    session.execute(delete(ReportKey).where(ReportKey.report_id.in_(reports)))
    session.execute(delete(Replacement).where(is_one_of(Replacement.replaced_id, ids)))
    session.execute(delete(Dispatch).where(is_one_of(Dispatch.id, ids)))
