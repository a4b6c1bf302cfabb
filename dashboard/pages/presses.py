"""The presses on one dispatch: try again, resend, cancel, acknowledge, check; and the page
that asks.

One press, one POST. htmx gets the fragment that was pressed on, others are sent back to it.
"""

import uuid
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

from flask import Blueprint, Response, flash, make_response, redirect, render_template, request
from flask import url_for as address_of
from werkzeug.wrappers import Response as AnyResponse

from dashboard.access.permissions import Permission
from dashboard.access.requires import requires
from dashboard.access.scope import current_access
from dashboard.database import db
from dashboard.dispatch.actions.acknowledge import acknowledge
from dashboard.dispatch.actions.buttons import Action
from dashboard.dispatch.actions.cancel import cancel
from dashboard.dispatch.actions.check import check
from dashboard.dispatch.actions.press import ActionRefused, ConfirmationNeeded
from dashboard.dispatch.actions.resend import resend
from dashboard.dispatch.actions.retry import retry
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import State
from dashboard.pages import listing
from dashboard.pages.detail import detail_of
from dashboard.pages.dispatches import shown, words
from dashboard.pages.live import is_htmx

blueprint = Blueprint("presses", __name__)

Form = Mapping[str, str]


def _retry(dispatch_id: uuid.UUID, form: Form) -> str:
    confirmed = form.get("confirmed") == "yes"
    retry(
        db.session,
        dispatch_id,
        current_access(),
        version=_version(form),
        confirm_may_have_arrived=confirmed,
    )
    return "Queued again: a worker takes it now."


def _resend(dispatch_id: uuid.UUID, form: Form) -> str:
    confirmed = form.get("confirmed") == "yes"
    resend(db.session, dispatch_id, current_access(), version=_version(form), confirm=confirmed)
    return "Resent: a new dispatch replaces this one and is queued."


def _cancel(dispatch_id: uuid.UUID, form: Form) -> str:
    row: Dispatch = cancel(
        db.session,
        dispatch_id,
        current_access(),
        version=_version(form),
        reason=form.get("reason", ""),
    )
    if row.state is State.CANCELLED:
        return "Cancelled: it will not be sent."
    return "Noted: it is cancelled unless it goes out with the attempt under way."


def _acknowledge(dispatch_id: uuid.UUID, form: Form) -> str:
    acknowledge(
        db.session,
        dispatch_id,
        current_access(),
        version=_version(form),
        reason=form.get("reason", ""),
    )
    return "Acknowledged: it no longer needs attention."


def _check(dispatch_id: uuid.UUID, form: Form) -> str:
    return check(db.session, dispatch_id, current_access(), version=_version(form))


PRESSES: Mapping[Action, Callable[[uuid.UUID, Form], str]] = {
    Action.RETRY: _retry,
    Action.RESEND: _resend,
    Action.CANCEL: _cancel,
    Action.ACKNOWLEDGE: _acknowledge,
    Action.CHECK: _check,
}
ASKING = {
    Action.RETRY: ("Try it again?", "Try again", "The same message goes out once more."),
    Action.RESEND: ("Send a second copy?", "Resend", "A new dispatch replaces this one."),
}
NAMES = "any(retry, resend, cancel, acknowledge, check)"


@blueprint.post(f"/dispatches/<uuid:dispatch_id>/<{NAMES}:name>")
@requires(Permission.DISPATCH_READ)
def press(dispatch_id: uuid.UUID, name: str) -> AnyResponse:
    """Do what a button says; the loser of a race gets 409 and the sentence on the page."""
    try:
        flash(PRESSES[Action(name)](dispatch_id, request.form), "done")
    except ConfirmationNeeded:
        db.session.rollback()
        return _go(address_of("presses.ask", dispatch_id=dispatch_id, name=name, back=_back()))
    except ActionRefused as refused:
        db.session.rollback()
        flash(refused.sentence, "refused")
        return _answer(dispatch_id, refused.status)
    return _answer(dispatch_id, 200)


@blueprint.get(f"/dispatches/<uuid:dispatch_id>/<{NAMES}:name>")
@requires(Permission.DISPATCH_READ)
def ask(dispatch_id: uuid.UUID, name: str) -> AnyResponse:
    """Ask once more before a second copy may arrive; other presses need no page."""
    words = ASKING.get(Action(name))
    if words is None:
        return redirect(address_of("dispatches.detail", dispatch_id=dispatch_id), 303)
    title, label, what = words
    page = render_template(
        "dispatches/confirm.html",
        this=detail_of(dispatch_id),
        name=name,
        title=title,
        label=label,
        what=what,
        back=request.args.get("back"),
    )
    return make_response(page)


def _answer(dispatch_id: uuid.UUID, status: int) -> AnyResponse:
    """Return the fragment that was pressed on, or the way back to its page."""
    back = _back()
    if not is_htmx():
        if back is not None:
            return redirect(_list_address(back), 303)
        return redirect(address_of("dispatches.detail", dispatch_id=dispatch_id), 303)
    if back is not None:
        asked = listing.read(_arguments(back))
        html = render_template("dispatches/pressed_list.html", pressed=True, **words(shown(asked)))
    else:
        this = detail_of(dispatch_id)
        html = render_template(
            "dispatches/pressed_dispatch.html", this=this, oob=False, pressed=True
        )
    return Response(html, status=status, mimetype="text/html")


def _go(where: str) -> AnyResponse:
    if is_htmx():
        return Response(status=204, headers={"HX-Redirect": where})
    return redirect(where, 303)


def _back() -> str | None:
    """Return the query string of the list that was pressed on; None for the page of a dispatch."""
    return request.form.get("back")


def _list_address(query: str) -> str:
    return listing.read(_arguments(query)).url


def _arguments(query: str) -> Mapping[str, str]:
    return dict(parse_qsl(query))


def _version(form: Form) -> int | None:
    """Return the version of the page that was pressed on; a broken one matches none."""
    value = form.get("version", "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 10 else -1
