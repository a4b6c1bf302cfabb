"""The page of one dispatch, put together for its templates; used by the page, its poller and the
presses."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, current_access
from dashboard.database import db
from dashboard.dispatch.actions.buttons import Button
from dashboard.dispatch.actions.check import can_check
from dashboard.dispatch.actions.situation import Situation, Surroundings, situation_of
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.reports.models import ReportOutcome
from dashboard.dispatch.reports.words import contradiction
from dashboard.dispatch.states import LABELS, Failure, State
from dashboard.dispatch.story.overview import Overview, overview
from dashboard.dispatch.story.overview import stamp as stamp_of
from dashboard.dispatch.story.sentence import Diagnosis, diagnose
from dashboard.dispatch.story.timeline import Events, timeline
from dashboard.dispatch.story.timeline_entries import Entry
from dashboard.dispatch.story.wording import actor_name
from dashboard.pages.live import pace_of_detail
from dashboard.pages.presentation import brief, exact
from dashboard.pages.row import PERMISSIONS, recipient_for
from dashboard.providers.error_codes import Advice, advice_for
from dashboard.settings import current


@dataclass(frozen=True, slots=True)
class Press:
    """A button, and why this person may not press it, if so."""

    button: Button
    refusal: str


@dataclass(frozen=True, slots=True)
class Detail:
    """What the templates of one dispatch write down.

    Attributes:
        warnings: what must be seen although the state does not tell it: complaints, contradictions.
        advice: what the last error code of an unsolved one means.
    """

    overview: Overview
    diagnosis: Diagnosis
    recipient: str
    entries: Sequence[Entry]
    warnings: Sequence[str]
    advice: Advice | None
    is_suppressed: bool
    presses: Sequence[Press]
    facts: Sequence[tuple[str, str]]
    headers: Sequence[tuple[str, str]]
    related: Sequence[tuple[str, Dispatch]]
    may_read: bool
    may_download: bool
    stamp: str
    pace: float
    ticket: str


def detail_of(dispatch_id: uuid.UUID) -> Detail:
    """Read a dispatch for the person of this request.

    Raises:
        OutOfScope: when there is no such dispatch for this person.
    """
    access = current_access()
    # First, so that a change between the two reads is noticed by the next poll.
    seen = stamp_of(db.session, dispatch_id, access)
    found = overview(db.session, dispatch_id, access, current())
    diagnosis = diagnose(_situation(found))
    row = found.row
    recipient = recipient_for(row, access)
    return Detail(
        overview=found,
        diagnosis=diagnosis,
        recipient=recipient,
        entries=timeline(_events(found, access)),
        warnings=_warnings(found),
        advice=_advice(found),
        is_suppressed=row.failure is Failure.SUPPRESSED,
        presses=[Press(one, _refusal(one, access, row.source_id)) for one in diagnosis.buttons],
        facts=_facts(found),
        headers=_headers(row),
        related=_related(found),
        may_read=access.allows(Permission.CONTENT_READ, row.source_id),
        may_download=access.allows(Permission.ATTACHMENT_DOWNLOAD, row.source_id),
        stamp=seen,
        pace=pace_of_detail(row),
        ticket=_ticket(found, diagnosis, recipient),
    )


def _events(found: Overview, access: Access) -> Events:
    return Events(
        row=found.row,
        now=found.now,
        transitions=found.transitions,
        attempts=found.attempts,
        reports=found.reports,
        activities=found.activities,
        reveals=access.allows(Permission.RECIPIENT_REVEAL, found.row.source_id),
    )


def _warnings(found: Overview) -> list[str]:
    row = found.row
    complained = ["The recipient complained about it as unwanted. Send no more of the kind."]
    told = complained if row.complained else []
    for one in found.reports:
        if one.outcome is ReportOutcome.CONFLICT:
            words = contradiction(one.event, row.state, row.channel)
            told.append(f"{one.provider} contradicts this: it {words}.")
    return list(dict.fromkeys(told))


def _advice(found: Overview) -> Advice | None:
    """Return what the newest code of attempts and reports means, while it still matters."""
    if found.row.state not in (State.ERRORED, State.DELAYED, State.UNCONFIRMED):
        return None
    codes = [
        *((one.finished_at or one.claimed_at, one.code) for one in found.attempts if one.code),
        *((one.received_at, one.code) for one in found.reports if one.code),
    ]
    return advice_for(max(codes)[1]) if codes else None


def _situation(found: Overview) -> Situation:
    cancelled = found.cancelled
    return situation_of(
        found.row,
        Surroundings(
            now=found.now,
            say_time=brief,
            ahead=found.ahead,
            workers=found.workers,
            hold_reason=found.hold_reason,
            cancelled_by=actor_name(cancelled.actor) if cancelled else "",
            cancel_reason=cancelled.note if cancelled else "",
            can_check=can_check(found.row),
        ),
    )


def _refusal(button: Button, access: Access, source_id: uuid.UUID) -> str:
    permission = PERMISSIONS[button.action]
    if access.allows(permission, source_id):
        return ""
    return f"You need the permission {permission.value}. Ask an administrator."


def _facts(found: Overview) -> list[tuple[str, str]]:
    row = found.row
    target = f"{row.target_type} {row.target_id}".strip()
    labels = "\n".join(f"{name} is {value}" for name, value in sorted(row.labels.items()))
    facts = (
        ("Subject", row.subject),
        ("Kind", row.kind),
        ("Target", target),
        ("Labels", labels),
        ("Source", row.source.name),
        ("Sender", row.sender),
        ("Segments", str(row.sms.segments) if row.sms else ""),
        ("Route", ", ".join(part for part in (row.provider, f"queue {row.queue}") if part)),
        ("Requested", exact(row.requested_at)),
        ("Requested by", actor_name(row.requested_by)),
        ("Expires", exact(row.expires_at) if row.expires_at else ""),
    )
    return [(name, value) for name, value in facts if value]


def _headers(row: Dispatch) -> list[tuple[str, str]]:
    """Return the headers as they are known here; the provider adds others."""
    email = row.email
    if email is None:
        return []
    lists = (("To", email.to), ("Cc", email.cc), ("Reply-To", email.reply_to))
    named = [(name, ", ".join(values)) for name, values in lists if values]
    own = [("From", row.sender), ("Subject", email.subject), ("Message-ID", email.message_id)]
    return [*own, *named, *email.headers.items()]


def _related(found: Overview) -> list[tuple[str, Dispatch]]:
    """Return the dispatches that belong to it, each with how; one line for each."""
    told: dict[uuid.UUID, tuple[str, Dispatch]] = {}
    for how, other in (("replaced it", found.replaced_by), ("replaced by it", found.replaces)):
        if other is not None:
            told[other.id] = (how, other)
    for other in found.others:
        told.setdefault(other.id, ("same target", other))
    return list(told.values())


def _ticket(found: Overview, diagnosis: Diagnosis, recipient: str) -> str:
    """Return the story as plain text, to paste where people talk about it."""
    row = found.row
    lines = [
        f"{row.channel.value} to {recipient}: {LABELS[row.state]}",
        diagnosis.headline,
        diagnosis.detail,
        f"Subject: {row.subject}" if row.subject else "",
        f"Id: {row.id}",
        f"Provider id: {row.provider_message_id}" if row.provider_message_id else "",
        f"Attempts: {row.attempts}, route {row.provider or 'none yet'}",
        f"Requested: {exact(row.requested_at)}",
    ]
    return "\n".join(line for line in lines if line)
