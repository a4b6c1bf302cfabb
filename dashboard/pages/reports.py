"""`/reports`: what providers say later, and what of it nobody could use."""

from dataclasses import dataclass
from datetime import datetime

from flask import Blueprint, render_template

from dashboard.access.permissions import Permission
from dashboard.access.requires import requires
from dashboard.access.scope import Access, current_access
from dashboard.database import db
from dashboard.dispatch.reports.board import Board, board, given_up_at
from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.reports.rejections import refused_lately
from dashboard.dispatch.reports.words import contradiction, said
from dashboard.dispatch.story.wording import mask
from dashboard.pages.row import recipient_for
from dashboard.settings import current

blueprint = Blueprint("reports", __name__)


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A report that belongs to no attempt yet, as its line says it."""

    report: StoredReport
    event: str
    recipient: str
    reason: str
    given_up_at: datetime
    is_given_up: bool


@dataclass(frozen=True, slots=True)
class Conflict:
    """A report that contradicts what is known of its dispatch."""

    report: StoredReport
    recipient: str
    subject: str
    words: str


@blueprint.get("/reports")
@requires(Permission.DISPATCH_LIST)
def index() -> str:
    """Show what came of reports."""
    access = current_access()
    found = board(db.session, access)
    return render_template(
        "reports/index.html",
        board=found,
        unmatched=_unmatched(found, access),
        conflicts=_conflicts(found, access),
        refused=refused_lately(current()),
    )


def _unmatched(found: Board, access: Access) -> list[Unmatched] | None:
    if found.unmatched is None:
        return None
    reveals = access.allows_everywhere(Permission.RECIPIENT_REVEAL)
    return [
        Unmatched(
            report=one,
            event=one.event.replace("_", " "),
            recipient=one.recipient if reveals else mask(one.recipient) if one.recipient else "",
            reason=said(one.reason, reveals=reveals),
            given_up_at=given_up_at(one),
            is_given_up=given_up_at(one) <= found.now,
        )
        for one in found.unmatched
    ]


def _conflicts(found: Board, access: Access) -> list[Conflict]:
    return [
        Conflict(
            report=one,
            recipient=recipient_for(row, access),
            subject=row.subject or row.kind,
            words=contradiction(one.event, row.state, row.channel),
        )
        for one, row in found.conflicts
    ]
