"""upload(): stores a file before the messages that carry it, to be named by its id."""

import uuid

from sqlalchemy import insert

from dashboard.database import AnySession
from dashboard.dispatch.files.attachments import remove, sha256_of, store
from dashboard.dispatch.files.models import Attachment
from dashboard.dispatch.request.requests import NewFile
from dashboard.dispatch.request.rows import Asker, Row, file_row


def upload(session: AnySession, file: NewFile, asker: Asker) -> Row:
    """Store a file for a source and return its row. Commits.

    Raises:
        OSError: it cannot be written; then nothing is left behind.
    """
    stored = store(file.content, asker.settings), sha256_of(file.content)
    row = file_row(file, uuid.uuid4(), asker.source.id, stored)
    try:
        session.execute(insert(Attachment).values(**row))
        session.commit()
    except BaseException:
        session.rollback()
        remove(stored[0], asker.settings)
        raise
    return row
