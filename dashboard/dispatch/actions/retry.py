"""retry(): a person's "Try again" or "Try now": the same dispatch, queued with new tries."""

import uuid

from dashboard.access.activity import record
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import AnySession
from dashboard.dispatch.actions.clearing import clear_for_retry
from dashboard.dispatch.actions.press import (
    ActionRefused,
    ConfirmationNeeded,
    Press,
    expect_moved,
    take,
)
from dashboard.dispatch.files.attachments import AttachmentError
from dashboard.dispatch.files.carried import check_files
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.publishing import publish_or_note
from dashboard.dispatch.states import Trigger
from dashboard.dispatch.transitions import Change, Locked, move
from dashboard.settings import current

MAY_HAVE_ARRIVED = (
    "It may have arrived already: nobody can say what came of an earlier attempt. "
    "Confirm that it may arrive twice."
)


def retry(
    session: AnySession,
    dispatch_id: uuid.UUID,
    access: Access,
    *,
    version: int | None = None,
    confirm_may_have_arrived: bool = False,
) -> Dispatch:
    """Queue a dispatch again, due now. Commits, then publishes.

    Raises:
        ActionRefused: when its state does not allow it, or a file of it is missing or changed.
        ConfirmationNeeded: when it may have arrived already.
        OutOfScope, NotAllowed: see `actions.take`.
    """
    press = Press(dispatch_id, access, version, confirm_may_have_arrived)
    locked = take(session, press, Permission.DISPATCH_RETRY)
    row = locked.dispatch
    if row.maybe_sent and not press.confirmed:
        raise ConfirmationNeeded(MAY_HAVE_ARRIVED)
    require_files(session, row)
    change = Change(Trigger.RETRY, access.actor, values=clear_for_retry(locked))
    expect_moved(move(session, locked, change))
    queue_now(locked)
    record(session, access, "dispatch.retry", "dispatch", str(row.id), row.source_id)
    session.commit()
    publish_or_note(session, [(row.queue, [row.id])], current())
    return row


def queue_now(locked: Locked) -> None:
    """Stamp a queued row as published: the publishing follows the commit at once."""
    locked.dispatch.published_at = locked.now


def require_files(session: AnySession, row: Dispatch) -> None:
    """Check that the files a dispatch carries are there and unchanged.

    Raises:
        ActionRefused: naming the file.
    """
    try:
        check_files(session, row, current())
    except AttachmentError as error:
        raise ActionRefused(str(error)) from error
