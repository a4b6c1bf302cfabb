"""The files of requests: uploaded ones are looked up, new ones are stored. Does not commit."""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import select

from dashboard.database import AnySession, new_id
from dashboard.dispatch.files.attachments import remove, sha256_of, store
from dashboard.dispatch.files.models import Attachment
from dashboard.dispatch.request.requests import (
    EmailRequest,
    InvalidRequest,
    NewFile,
    Problem,
    Request,
    StoredFile,
)
from dashboard.dispatch.request.rows import Planned
from dashboard.settings import Settings


def missing_files(
    session: AnySession, source_id: uuid.UUID, requests: Sequence[Request]
) -> dict[int, InvalidRequest]:
    """Return the requests that name files which the source does not have, by position."""
    named = {index: _stored_files(request) for index, request in enumerate(requests)}
    ids = {one for files in named.values() for one in files.values()}
    if not ids:
        return {}
    query = select(Attachment.id).where(
        Attachment.id.in_(ids), Attachment.source_id == source_id, Attachment.deleted_at.is_(None)
    )
    lost = ids - set(session.scalars(query))
    message = "There is no such file of this source; upload it, or send its content."
    problems = {
        index: [
            Problem(f"attachments[{position}]", message)
            for position, one in files.items()
            if one in lost
        ]
        for index, files in named.items()
    }
    return {index: InvalidRequest(some) for index, some in problems.items() if some}


def _stored_files(request: Request) -> dict[int, uuid.UUID]:
    files = request.files if isinstance(request, EmailRequest) else ()
    return {
        position: file.attachment_id
        for position, file in enumerate(files)
        if isinstance(file, StoredFile)
    }


def plan(request: Request) -> Planned:
    """Return a request with the ids that its dispatches will have."""
    count = len(request.recipients) if isinstance(request, EmailRequest) else 1
    return Planned(request, tuple(new_id() for _ in range(count)))


def store_files(planned: Planned, settings: Settings) -> tuple[Planned, list[str]]:
    """Write the new files of a request; return the plan with their keys, and the keys.

    Raises:
        OSError: when one cannot be written; then none is left behind.
    """
    files = planned.request.files if isinstance(planned.request, EmailRequest) else ()
    stored: dict[int, tuple[str, str]] = {}
    try:
        for position, file in enumerate(files):
            if isinstance(file, NewFile):
                stored[position] = store(file.content, settings), sha256_of(file.content)
    except OSError:
        for key, _ in stored.values():
            remove(key, settings)
        raise
    return replace(planned, storage_keys=stored), [key for key, _ in stored.values()]
