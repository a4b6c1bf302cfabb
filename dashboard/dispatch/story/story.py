"""The story of one dispatch: the row, its files, and what happened to it, oldest first.

Reads only; five statements whatever its length. What the API answers with and `wireroom show`
prints. No content: that needs a permission of its own.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, OutOfScope, scope_filter
from dashboard.database import AnySession
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.reports.models import StoredReport


@dataclass(frozen=True, slots=True)
class CarriedFile:
    """A file of the dispatch, and under which content id if it is inline."""

    attachment: Attachment
    inline: bool
    content_id: str


@dataclass(frozen=True, slots=True)
class Story:
    """All that is known about one dispatch, apart from what it says."""

    dispatch: Dispatch
    files: Sequence[CarriedFile]
    transitions: Sequence[Transition]
    attempts: Sequence[Attempt]
    reports: Sequence[StoredReport]
    copies: Sequence[uuid.UUID]


def story_of(session: AnySession, dispatch_id: uuid.UUID, access: Access) -> Story:
    """Load a dispatch and its history.

    Raises:
        OutOfScope: when there is no such dispatch for this person.
    """
    row = session.scalars(
        select(Dispatch).where(
            Dispatch.id == dispatch_id,
            scope_filter(Dispatch.source_id, access, Permission.DISPATCH_READ),
        )
    ).first()
    if row is None:
        raise OutOfScope
    return Story(
        dispatch=row,
        files=_files(session, row),
        transitions=session.scalars(
            select(Transition)
            .where(Transition.dispatch_id == row.id)
            .order_by(Transition.at, Transition.id)
        ).all(),
        attempts=session.scalars(
            select(Attempt).where(Attempt.dispatch_id == row.id).order_by(Attempt.number)
        ).all(),
        reports=session.scalars(
            select(StoredReport)
            .where(StoredReport.dispatch_id == row.id)
            .order_by(StoredReport.received_at, StoredReport.id)
        ).all(),
        copies=session.scalars(
            select(Dispatch.id).where(Dispatch.copy_of_id == row.id).order_by(Dispatch.id)
        ).all(),
    )


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


def events(story: Story) -> list[tuple[datetime, Transition | Attempt | StoredReport]]:
    """Return what happened, oldest first; an attempt stands where it began."""
    happened: list[tuple[datetime, Transition | Attempt | StoredReport]] = [
        *((one.at, one) for one in story.transitions),
        *((one.claimed_at, one) for one in story.attempts),
        *((one.received_at, one) for one in story.reports),
    ]
    return sorted(happened, key=lambda pair: pair[0])
