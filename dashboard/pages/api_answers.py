"""Dispatches as the API shows them. Reads what is loaded; asks the database nothing."""

from collections.abc import Mapping
from datetime import datetime

from flask import url_for

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.request.accept import Answer
from dashboard.dispatch.request.requests import EmailRequest, Request
from dashboard.dispatch.states import State
from dashboard.dispatch.story.story import Story, events
from dashboard.providers.sandbox_mail import CapturedSummary

Json = dict[str, object]


def accepted(answer: Answer) -> Json:
    """Return the answer to an accepted request: the same when it is asked for again."""
    return {
        "id": str(answer.id),
        "state": State.QUEUED.value,
        "url": address(answer.id),
        "copies": [str(copy) for copy in answer.copies],
    }


def address(dispatch_id: object) -> str:
    """Return where the API has a dispatch."""
    return url_for("api.show", dispatch_id=dispatch_id)


def would_accept(request: Request) -> Json:
    """Return what a request would do if it were no dry run."""
    found: Json = {
        "dry_run": True,
        "channel": request.channel.value,
        "queue": request.common.queue.value,
        "due_at": _moment(request.common.send_at),
    }
    if isinstance(request, EmailRequest):
        return {**found, "recipients": len(request.recipients), "attachments": len(request.files)}
    return {**found, "recipients": 1, "segments": request.segments.count}


def stored(row: Mapping[str, object]) -> Json:
    """Return the answer to a stored file."""
    shown = ("filename", "content_type", "size", "sha256")
    return {"id": str(row["id"]), **{name: row[name] for name in shown}}


def short(row: Dispatch) -> Json:
    """Return the answer to an action."""
    return {"id": str(row.id), "state": row.state.value, "url": address(row.id)}


def rescheduled(row: Dispatch) -> Json:
    """Return the answer to a new time."""
    return {**short(row), "due_at": _moment(row.due_at), "version": row.version}


def listed(row: Dispatch, access: Access) -> Json:
    """Return a dispatch as the list shows it."""
    return {
        **short(row),
        **_what(row, access),
        **_delivery(row),
        "replaces": _id(row.replaces_id),
        "replaced_by": _id(row.replaced_by_id),
        "copy_of": _id(row.copy_of_id),
    }


def full(story: Story, access: Access) -> Json:
    """Return all that is known about a dispatch, apart from what it says."""
    return {
        **listed(story.dispatch, access),
        "copies": [str(copy) for copy in story.copies],
        "attachments": [
            {
                "id": str(one.attachment.id),
                "filename": one.attachment.filename,
                "content_type": one.attachment.content_type,
                "size": one.attachment.size,
                "sha256": one.attachment.sha256,
                "inline": one.inline,
                "content_id": one.content_id,
                "deleted_at": _moment(one.attachment.deleted_at),
            }
            for one in story.files
        ],
        "timeline": [_event(one) for _, one in events(story)],
    }


def _what(row: Dispatch, access: Access) -> Json:
    revealed = access.allows(Permission.RECIPIENT_REVEAL, row.source_id)
    return {
        "channel": row.channel.value,
        "kind": row.kind,
        "recipient": row.recipient if revealed else masked(row.recipient),
        "sender": row.sender,
        "subject": row.subject,
        "target": {"type": row.target_type, "id": row.target_id} if row.target_type else None,
        "labels": dict(row.labels),
        "requested_by": row.requested_by,
        "requested_at": _moment(row.requested_at),
        "queue": row.queue,
    }


def masked(recipient: str) -> str:
    """Return a recipient for somebody who may not see it: `a…@example.com`, `+12…43`."""
    local_part, at, domain = recipient.rpartition("@")
    return f"{local_part[:1]}…@{domain}" if at else f"{recipient[:3]}…{recipient[-2:]}"


def _delivery(row: Dispatch) -> Json:
    return {
        "provider": row.provider,
        "provider_message_id": row.provider_message_id,
        "attempts": row.attempts,
        "error": row.error,
        "failure": row.failure.value,
        "permanent": row.permanent,
        "may_have_arrived": row.maybe_sent,
        "complained": row.complained,
        "hold": row.hold.value,
        "due_at": _moment(row.due_at),
        "expires_at": _moment(row.expires_at),
        "started_at": _moment(row.started_at),
        "finished_at": _moment(row.finished_at),
        "updated_at": _moment(row.updated_at),
        "version": row.version,
    }


def _event(one: Transition | Attempt | StoredReport) -> Json:
    if isinstance(one, Transition):
        return {
            "at": _moment(one.at),
            "what": "transition",
            "trigger": one.trigger,
            "from": one.state_from,
            "to": one.state_to,
            "actor": one.actor,
            "attempt": one.attempt,
            "note": one.note,
            "repeats": one.repeats,
        }
    return _attempt(one) if isinstance(one, Attempt) else _report(one)


def _attempt(one: Attempt) -> Json:
    return {
        "at": _moment(one.claimed_at),
        "what": "attempt",
        "attempt": one.number,
        "worker": one.worker,
        "route": one.route,
        "handed_over_at": _moment(one.handed_over_at),
        "finished_at": _moment(one.finished_at),
        "outcome": "lost" if one.lost else (one.outcome.value if one.outcome else ""),
        "provider_message_id": one.provider_message_id,
        "code": one.code,
        "detail": one.detail,
    }


def _report(one: StoredReport) -> Json:
    return {
        "at": _moment(one.received_at),
        "what": "report",
        "provider": one.provider,
        "event": one.event,
        "occurred_at": _moment(one.occurred_at),
        "attempt": one.attempt,
        "outcome": one.outcome.value,
        "reason": one.reason,
        "code": one.code,
        "repeats": one.repeats,
    }


def captured(one: CapturedSummary) -> Mapping[str, object]:
    """Return one message that the sandbox captured."""
    return {
        "id": one.id,
        "received_at": _moment(one.received_at),
        "mail_from": one.envelope.mail_from,
        "rcpt_to": list(one.envelope.rcpt_to),
        "from": one.sender,
        "to": one.to,
        "subject": one.subject,
        "message_id": one.message_id,
        "size": one.size,
    }


def _moment(value: datetime | None) -> str | None:
    return value.isoformat() if value else None


def _id(value: object | None) -> str | None:
    return str(value) if value else None
