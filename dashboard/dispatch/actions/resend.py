"""resend(): a new dispatch that replaces an old one; the old one stays as history.

The new row copies who, what and to whom, not the idempotency key nor the due time.
"""

import uuid

from sqlalchemy import insert, literal, select

from dashboard.access.activity import record
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.database import AnySession, new_id
from dashboard.dispatch.actions.press import (
    ActionRefused,
    ConfirmationNeeded,
    Press,
    expect_moved,
    take,
)
from dashboard.dispatch.actions.retry import require_files
from dashboard.dispatch.files.models import DispatchAttachment
from dashboard.dispatch.models import (
    Dispatch,
    EmailContent,
    Replacement,
    SmsContent,
    Transition,
)
from dashboard.dispatch.publishing import publish_or_note
from dashboard.dispatch.states import Channel, State, Trigger
from dashboard.dispatch.transitions import Change, Locked, move, opening
from dashboard.settings import current

COPIED = (
    "source_id",
    "channel",
    "kind",
    "args",
    "sender",
    "recipient",
    "recipient_normalised",
    "subject",
    "search_text",
    "target_type",
    "target_id",
    "labels",
    "queue",
    "file_count",
)
EMAIL_COPIED = ("subject", "text", "html", "to", "cc", "reply_to", "headers")
SMS_COPIED = ("body", "media_urls", "segments")
MAY_ARRIVE_TWICE = (
    "The earlier one arrived or may have arrived. Confirm that a second copy goes out."
)


def resend(
    session: AnySession,
    dispatch_id: uuid.UUID,
    access: Access,
    *,
    version: int | None = None,
    confirm: bool = False,
) -> Dispatch:
    """Make the dispatch that replaces this one, queued now. Commits, then publishes.

    A dispatch that still waits is cancelled in the same transaction.

    Raises:
        ActionRefused: when it is being sent, was resent already, or cannot be sent as it was.
        ConfirmationNeeded: when a second copy may arrive.
        OutOfScope, NotAllowed: see `actions.take`.
    """
    press = Press(dispatch_id, access, version, confirm)
    locked = take(session, press, Permission.DISPATCH_RESEND)
    row = locked.dispatch
    if needs_confirmation(row) and not confirm:
        raise ConfirmationNeeded(MAY_ARRIVE_TWICE)
    require_files(session, row)
    copy = _copy(session, locked, access)
    change = Change(Trigger.REPLACE, access.actor, note=f"Replaced by {copy.id}.")
    expect_moved(move(session, locked, change))
    _link(session, locked, copy, access)
    record(
        session,
        access,
        "dispatch.resend",
        "dispatch",
        str(row.id),
        row.source_id,
        details={"new": str(copy.id)},
    )
    session.commit()
    publish_or_note(session, [(copy.queue, [copy.id])], current())
    return copy


def needs_confirmation(row: Dispatch) -> bool:
    """Return whether a second copy may arrive. Pure."""
    return row.state in (State.SUCCEEDED, State.UNCONFIRMED) or row.maybe_sent


def _copy(session: AnySession, locked: Locked, access: Access) -> Dispatch:
    row = locked.dispatch
    copy = Dispatch(
        id=new_id(),
        **{name: getattr(row, name) for name in COPIED},
        requested_by=access.actor,
        replaces_id=row.id,
        published_at=locked.now,
        due_at=locked.now,
    )
    history: Transition = opening(copy, access.actor)
    history.note = f"Resend of {row.id}."
    session.add(copy)
    session.flush()
    session.add_all([history, _content(session, row, copy.id)])
    session.execute(
        insert(DispatchAttachment).from_select(
            ["dispatch_id", "position", "attachment_id", "inline", "content_id"],
            select(
                literal(copy.id),
                DispatchAttachment.position,
                DispatchAttachment.attachment_id,
                DispatchAttachment.inline,
                DispatchAttachment.content_id,
            ).where(DispatchAttachment.dispatch_id == row.id),
        )
    )
    return copy


def _content(session: AnySession, row: Dispatch, copy_id: uuid.UUID) -> EmailContent | SmsContent:
    if row.channel is Channel.EMAIL:
        email = session.get(EmailContent, row.id)
        if email is None:
            raise ActionRefused("Its content was deleted when its retention ended; send a new one.")
        values = {name: getattr(email, name) for name in EMAIL_COPIED}
        domain = email.message_id.rstrip(">").rpartition("@")[2] or "wireroom.invalid"
        return EmailContent(dispatch_id=copy_id, message_id=f"<{copy_id}@{domain}>", **values)
    sms = session.get(SmsContent, row.id)
    if sms is None:
        raise ActionRefused("Its content was deleted when its retention ended; send a new one.")
    return SmsContent(dispatch_id=copy_id, **{name: getattr(sms, name) for name in SMS_COPIED})


def _link(session: AnySession, locked: Locked, copy: Dispatch, access: Access) -> None:
    row = locked.dispatch
    session.add(
        Replacement(replaced_id=row.id, dispatch_id=copy.id, by=access.actor, at=locked.now)
    )
    row.replaced_by_id = copy.id
    row.version += 1
    row.updated_at = locked.now
