"""Deletes stored files whose time is over; their rows stay and say when.

A file goes `ATTACHMENT_MAX_AGE_SECONDS` after every dispatch that carries it is delivered, sent or
cancelled (unset: it is kept), and when no dispatch carries it any more for
`DISPATCH_RETENTION_DAYS`. One that cannot be deleted is tried again by the next run.
"""

import uuid
from datetime import timedelta

from sqlalchemy import ColumnElement, and_, exists, func, select, update

from dashboard.database import AnySession, is_one_of
from dashboard.dispatch.files.attachments import delete_stored
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.retention.slices import BATCH, Pruning
from dashboard.dispatch.states import State

DONE_WITH = (State.SUCCEEDED, State.SENT, State.CANCELLED)

_carried = exists().where(DispatchAttachment.attachment_id == Attachment.id)


def prune_carried(session: AnySession, run: Pruning) -> None:
    """Delete the files that every dispatch which carries them is done with for long enough."""
    age = run.settings.attachment_max_age_seconds
    if age is None:
        return
    needed = exists().where(
        DispatchAttachment.attachment_id == Attachment.id,
        Dispatch.id == DispatchAttachment.dispatch_id,
        ~and_(
            Dispatch.state.in_(DONE_WITH),
            Dispatch.updated_at <= run.now - timedelta(seconds=age),
        ),
    )
    _delete_files(session, run, and_(_carried, ~needed))


def prune_orphans(session: AnySession, run: Pruning) -> None:
    """Delete the files that no dispatch carries, once they are as old as a dispatch gets."""
    kept = timedelta(days=run.settings.dispatch_retention_days)
    _delete_files(session, run, and_(~_carried, Attachment.created_at <= run.now - kept))


def _delete_files(session: AnySession, run: Pruning, outlived: ColumnElement[bool]) -> None:
    after = uuid.UUID(int=0)
    while not run.is_over:
        files = list(
            session.execute(
                select(Attachment.id, Attachment.storage_key)
                .where(outlived, Attachment.deleted_at.is_(None), Attachment.id > after)
                .order_by(Attachment.id)
                .limit(BATCH)
                .with_for_update(skip_locked=True, of=Attachment)
            )
        )
        gone = [file for file, key in files if delete_stored(key, run.settings)]
        session.execute(
            update(Attachment).where(is_one_of(Attachment.id, gone)).values(deleted_at=func.now())
        )
        session.commit()
        run.tally.found += len(files)
        run.tally.repaired += len(gone)
        run.tally.skipped += len(files) - len(gone)
        if len(files) < BATCH:
            return
        after = files[-1][0]
