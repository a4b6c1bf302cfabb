"""The rows of accepted requests, written with one statement per table however many there are.

Core statements on purpose: the unit of work does not order tables without a relationship, and would
write rows that hold SQL expressions one by one. Nothing here commits.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    DateTime,
    Interval,
    bindparam,
    case,
    func,
    insert,
    null,
)

from dashboard.access.models import Source
from dashboard.database import AnySession
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import Dispatch, EmailContent, SmsContent, Transition
from dashboard.dispatch.request.addresses import (
    Address,
    AddressRefused,
    parse_address,
    search_forms,
)
from dashboard.dispatch.request.outbox import ByQueue
from dashboard.dispatch.request.requests import EmailRequest, NewFile, Request, SmsRequest
from dashboard.dispatch.transitions import opening
from dashboard.settings import Settings

Row = dict[str, Any]
# What a request sets on a dispatch; everything else starts with its default.
_SET = (
    *("id", "source_id", "channel", "kind", "state", "sender", "recipient"),
    *("recipient_normalised", "subject", "search_text", "target_type", "target_id", "labels"),
    *("requested_by", "queue", "file_count", "copy_of_id"),
)
NO_DOMAIN = "wireroom.invalid"


@dataclass(slots=True)
class Rows:
    """Rows by table, in the order in which they are written."""

    dispatches: list[Row] = field(default_factory=list)
    emails: list[Row] = field(default_factory=list)
    texts: list[Row] = field(default_factory=list)
    history: list[Row] = field(default_factory=list)
    files: list[Row] = field(default_factory=list)
    links: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks for a message: the source it belongs to, and the actor of its history."""

    source: Source
    actor: str
    settings: Settings


@dataclass(frozen=True, slots=True)
class Planned:
    """A request with the ids that its dispatches will have, and where its new files are."""

    request: Request
    ids: tuple[uuid.UUID, ...]
    storage_keys: Mapping[int, tuple[str, str]] = field(default_factory=dict)
    """Position of a new file → its storage key and hash."""


def write_rows(session: AnySession, planned: Iterable[Planned], asker: Asker) -> ByQueue:
    """Write everything that these requests need; return what is due now, by queue."""
    rows = Rows()
    for one in planned:
        _add(rows, one, asker)
    return _insert_all(session, rows)


def _add(rows: Rows, planned: Planned, asker: Asker) -> None:
    request = planned.request
    if isinstance(request, EmailRequest):
        sender = request.sender or asker.source.email_from or asker.settings.email_from
        recipients = [(one.address, one.normalised) for one in request.recipients]
    else:
        sender = request.sender or asker.source.sms_from or asker.settings.twilio_from
        recipients = [(request.to, request.to)]
    for dispatch_id, (recipient, normalised) in zip(planned.ids, recipients, strict=True):
        row = Dispatch(
            id=dispatch_id,
            recipient=recipient,
            recipient_normalised=normalised,
            sender=sender,
            copy_of_id=None if dispatch_id == planned.ids[0] else planned.ids[0],
            **_shared(request, asker),
        )
        row.search_text = " ".join(
            filter(None, (search_forms(recipient, normalised), row.subject, row.target_id))
        ).lower()
        _add_dispatch(rows, row, planned, asker)
    _add_files(rows, planned, asker.source.id)


def _shared(request: Request, asker: Asker) -> Row:
    """Return what the dispatches of one request have in common."""
    common = request.common
    return {
        "source_id": asker.source.id,
        "channel": request.channel,
        "kind": common.kind,
        "subject": request.subject if isinstance(request, EmailRequest) else "",
        "target_type": common.target_type,
        "target_id": common.target_id,
        "labels": dict(common.labels),
        "requested_by": asker.actor,
        "queue": common.queue.value,
        "file_count": len(request.files) if isinstance(request, EmailRequest) else 0,
    }


def _add_dispatch(rows: Rows, row: Dispatch, planned: Planned, asker: Asker) -> None:
    request = planned.request
    history = opening(row, asker.actor)
    values = {name: getattr(row, name) for name in _SET}
    values |= {"wanted_at": request.common.send_at, "valid_for": request.common.valid_for}
    rows.dispatches.append(values)
    rows.history.append(
        {name: getattr(history, name) for name in ("dispatch_id", "state_to", "trigger", "actor")}
    )
    if isinstance(request, EmailRequest):
        rows.emails.append(_email_content(row, request))
    else:
        rows.texts.append(_sms_content(row, request))


def _email_content(row: Dispatch, request: EmailRequest) -> Row:
    return {
        "dispatch_id": row.id,
        "subject": request.subject,
        "text": request.text,
        "html": request.html,
        "to": [one.header() for one in request.to],
        "cc": [one.header() for one in request.cc],
        "reply_to": list(request.reply_to),
        "headers": dict(request.headers),
        "message_id": f"<{row.id}@{_domain(row.sender)}>",
    }


def _domain(sender: str) -> str:
    try:
        address: Address = parse_address(sender, named=True, smtputf8=True)
    except AddressRefused:  # a source's own sender may be for an internal relay
        return NO_DOMAIN
    return address.ascii_domain


def _sms_content(row: Dispatch, request: SmsRequest) -> Row:
    return {
        "dispatch_id": row.id,
        "body": request.body,
        "media_urls": list(request.media_urls),
        "segments": request.segments.count,
    }


def _add_files(rows: Rows, planned: Planned, source_id: uuid.UUID) -> None:
    """Add the new files once, and a link to each file for every copy."""
    request = planned.request
    for position, file in enumerate(request.files if isinstance(request, EmailRequest) else ()):
        if isinstance(file, NewFile):
            storage_key, sha256 = planned.storage_keys[position]
            attachment_id = uuid.uuid4()
            rows.files.append(file_row(file, attachment_id, source_id, (storage_key, sha256)))
        else:
            attachment_id = file.attachment_id
        rows.links += [
            {
                "dispatch_id": dispatch_id,
                "position": position,
                "attachment_id": attachment_id,
                "inline": file.inline,
                "content_id": file.content_id,
            }
            for dispatch_id in planned.ids
        ]


def file_row(
    file: NewFile, attachment_id: uuid.UUID, source_id: uuid.UUID, stored: tuple[str, str]
) -> Row:
    """Return the row of a file that was stored under a key (with its hash)."""
    storage_key, sha256 = stored
    return {
        "id": attachment_id,
        "source_id": source_id,
        "filename": file.filename,
        "content_type": file.content_type,
        "size": len(file.content),
        "sha256": sha256,
        "storage_key": storage_key,
    }


def _insert_all(session: AnySession, rows: Rows) -> ByQueue:
    due = _insert_dispatches(session, rows.dispatches)
    connection = session.connection(bind_arguments={"mapper": Dispatch})
    for model, some in (
        (EmailContent, rows.emails),
        (SmsContent, rows.texts),
        (Transition, rows.history),
    ):
        if some:
            connection.execute(insert(model), some if len(some) > 1 else some[0])
    if rows.links:
        _insert_files(session, rows)
    return due


# The database's clock decides whether a dispatch is due, and stamps it as published with the same
# statement: publishing follows the commit and costs none of its own.
_NOW = func.statement_timestamp()
_WANTED = bindparam("wanted_at", type_=DateTime(timezone=True))
_DUE = func.greatest(func.coalesce(_WANTED, _NOW), _NOW)
_INSERT = insert(Dispatch.__table__).values(  # type: ignore[arg-type]  # a Table, declared wider
    due_at=_DUE,
    published_at=case((_DUE <= _NOW, func.clock_timestamp()), else_=null()),
    expires_at=_DUE + bindparam("valid_for", type_=Interval),
)


def _insert_dispatches(session: AnySession, rows: Sequence[Row]) -> ByQueue:
    """Write dispatches; return those that are due now, by queue."""
    table = Dispatch.__table__.c
    connection = session.connection(bind_arguments={"mapper": Dispatch})
    statement = _INSERT.returning(table.id, table.queue, table.published_at)
    due: ByQueue = {}
    for dispatch_id, queue, published_at in connection.execute(statement, list(rows)):
        if published_at is not None:
            due.setdefault(queue, []).append(dispatch_id)
    return due


def _insert_files(session: AnySession, rows: Rows) -> None:
    """Write files and what carries them in one statement."""
    statement = insert(DispatchAttachment).values(rows.links)
    if rows.files:
        statement = statement.add_cte(insert(Attachment).values(rows.files).cte("new_file"))
    session.connection(bind_arguments={"mapper": Attachment}).execute(statement)
