"""`/suppressions`: to whom nothing more goes and why, and the press that lifts it."""

import uuid
from dataclasses import dataclass

from flask import Blueprint, flash, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from dashboard.access.permissions import Permission
from dashboard.access.requires import requires
from dashboard.access.scope import Access, current_access
from dashboard.database import db
from dashboard.dispatch.actions.press import ActionRefused
from dashboard.dispatch.reports.words import said
from dashboard.dispatch.story.wording import mask
from dashboard.dispatch.suppressions import SHOWN, Suppressed, lift, listed

blueprint = Blueprint("suppressions", __name__)


@dataclass(frozen=True, slots=True)
class Line:
    """A suppression as its line says it; `may_lift` is whether this person may lift it."""

    found: Suppressed
    recipient: str
    reason: str
    may_lift: bool


@blueprint.get("/suppressions")
@requires(Permission.DISPATCH_LIST)
def index() -> str:
    """Show the suppressions that stand; with `dispatch`, those that hold it back."""
    access = current_access()
    of = request.args.get("dispatch", type=uuid.UUID)
    found = [_line(one, access) for one in listed(db.session, access, of=of)]
    return render_template("suppressions/index.html", lines=found, of=of, most=SHOWN)


@blueprint.post("/suppressions/<uuid:suppression_id>/lift")
@requires(Permission.SUPPRESSION_LIFT)
def lift_one(suppression_id: uuid.UUID) -> Response:
    """Let messages go to a recipient again."""
    of = request.form.get("dispatch", type=uuid.UUID)
    try:
        lift(db.session, suppression_id, current_access(), request.form.get("reason", ""))
        flash("Lifted: messages go there again. What was not sent waits for its Try again.", "done")
    except ActionRefused as refused:
        db.session.rollback()
        flash(refused.sentence, "refused")
    if of is not None:
        return redirect(url_for("dispatches.detail", dispatch_id=of), 303)
    return redirect(url_for("suppressions.index"), 303)


def _line(one: Suppressed, access: Access) -> Line:
    row = one.suppression
    everywhere = row.source_id is None
    lifts, reveals = (
        access.allows_everywhere(wanted) if everywhere else access.allows(wanted, row.source_id)
        for wanted in (Permission.SUPPRESSION_LIFT, Permission.RECIPIENT_REVEAL)
    )
    recipient = row.recipient_normalised
    return Line(
        found=one,
        recipient=recipient if reveals else mask(recipient),
        reason=said(row.reason, reveals=reveals),
        may_lift=lifts,
    )
