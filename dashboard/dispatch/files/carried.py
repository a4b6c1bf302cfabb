"""The files that a dispatch carries: loaded to be sent, checked before a person sends it again."""

from collections.abc import Sequence

from sqlalchemy import select

from dashboard.database import AnySession
from dashboard.dispatch.files.attachments import read, verify
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import Dispatch
from dashboard.providers.base import File
from dashboard.settings import Settings


def files_of(session: AnySession, row: Dispatch, settings: Settings) -> list[File]:
    """Return the files of a dispatch in their order, each checked against its size and hash.

    Raises:
        AttachmentError: naming the file that is missing or changed.
    """
    return [
        File(
            filename=attachment.filename,
            content_type=attachment.content_type,
            content=read(attachment, settings),
            content_id=link.content_id if link.inline else "",
        )
        for link, attachment in _attached(session, row)
    ]


def check_files(session: AnySession, row: Dispatch, settings: Settings) -> None:
    """Check that every file of a dispatch is there and unchanged, without keeping any in memory.

    Raises:
        AttachmentError: naming the file that is missing or changed.
    """
    for _, attachment in _attached(session, row):
        verify(attachment, settings)


def _attached(
    session: AnySession, row: Dispatch
) -> Sequence[tuple[DispatchAttachment, Attachment]]:
    if not row.file_count:
        return []
    query = (
        select(DispatchAttachment, Attachment)
        .join(Attachment, Attachment.id == DispatchAttachment.attachment_id)
        .where(DispatchAttachment.dispatch_id == row.id)
        .order_by(DispatchAttachment.position)
    )
    return [(link, attachment) for link, attachment in session.execute(query)]
