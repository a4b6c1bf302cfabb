"""`/api/v1`: applications hand over messages and ask what became of them. JSON, bearer token.

What may be sent is described at `/api/v1/openapi.json` (`api_description.py`).
"""

import uuid

from flask import Blueprint, Response, jsonify, request
from werkzeug.exceptions import NotFound

from dashboard.access.permissions import Permission
from dashboard.access.requires import public, requires
from dashboard.access.scope import current_access
from dashboard.database import db
from dashboard.dispatch.actions.cancel import cancel as cancel_dispatch
from dashboard.dispatch.actions.check import check as check_dispatch
from dashboard.dispatch.actions.check import rehearse_check
from dashboard.dispatch.actions.press import Press
from dashboard.dispatch.actions.rehearsal import rehearse
from dashboard.dispatch.actions.reschedule import rehearse_reschedule
from dashboard.dispatch.actions.reschedule import reschedule as reschedule_dispatch
from dashboard.dispatch.actions.resend import resend as resend_dispatch
from dashboard.dispatch.actions.retry import retry as retry_dispatch
from dashboard.dispatch.lists.api_list import list_dispatches
from dashboard.dispatch.request.accept import Answer, accept, accept_all
from dashboard.dispatch.request.uploads import upload
from dashboard.dispatch.states import Trigger
from dashboard.dispatch.story.story import story_of
from dashboard.pages import api_problems
from dashboard.pages.api_access import asker, sign_in
from dashboard.pages.api_answers import (
    accepted,
    address,
    captured,
    full,
    listed,
    rescheduled,
    short,
    stored,
    would_accept,
)
from dashboard.pages.api_batch import in_order, split
from dashboard.pages.api_body import (
    action_body,
    flag,
    is_dry_run,
    line,
    many_asks,
    new_time,
    one_ask,
    one_file,
)
from dashboard.pages.api_description import description
from dashboard.pages.api_query import cursor, wanted
from dashboard.pages.sandbox_scope import newest_in_scope
from dashboard.settings import Environment, current

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")
blueprint.before_request(sign_in)
api_problems.register(blueprint)

Json = tuple[Response, int]


@blueprint.post("/dispatches")
@requires(Permission.DISPATCH_CREATE)
def create() -> Json:
    """Accept one message; with `Dry-Run: true` only say what would be accepted."""
    ask = one_ask()
    who = asker()
    if is_dry_run():
        return jsonify(would_accept(ask.request)), 200
    answer = accept(db.session, ask, who)
    response = jsonify(accepted(answer))
    response.headers["Location"] = address(answer.id)
    if answer.replayed:
        response.headers["Idempotent-Replayed"] = "true"
    return response, 202


@blueprint.post("/dispatches/batch")
@requires(Permission.DISPATCH_CREATE)
def create_batch() -> Json:
    """Accept many messages, each judged alone; the results are in the order of the messages."""
    judged = many_asks()
    who = asker()
    asks, wrong = split(judged)
    if is_dry_run():
        return jsonify(results=in_order([would_accept(ask.request) for ask in asks], wrong)), 200
    answers = [
        accepted(one) if isinstance(one, Answer) else {"error": api_problems.body_of(one)}
        for one in accept_all(db.session, asks, who)
    ]
    return jsonify(results=in_order(answers, wrong)), 202


@blueprint.get("/dispatches")
@requires(Permission.DISPATCH_LIST)
def list_all() -> Response:
    """List dispatches, newest first; `next` is the cursor of the page after this one."""
    access = current_access()
    rows, last = list_dispatches(db.session, wanted(), access)
    return jsonify(dispatches=[listed(row, access) for row in rows], next=cursor(last))


@blueprint.get("/dispatches/<uuid:dispatch_id>")
@requires(Permission.DISPATCH_READ)
def show(dispatch_id: uuid.UUID) -> Response:
    """Return all that is known about a dispatch, apart from what it says."""
    access = current_access()
    return jsonify(full(story_of(db.session, dispatch_id, access), access))


@blueprint.post("/dispatches/<uuid:dispatch_id>/retry")
@requires(Permission.DISPATCH_RETRY)
def retry(dispatch_id: uuid.UUID) -> Json:
    """Queue a dispatch again."""
    confirm = flag(action_body(frozenset({"confirm"})), "confirm")
    access = current_access()
    if is_dry_run():
        return rehearsed(Press(dispatch_id, access, confirmed=confirm), Trigger.RETRY)
    row = retry_dispatch(db.session, dispatch_id, access, confirm_may_have_arrived=confirm)
    return jsonify(short(row)), 202


@blueprint.post("/dispatches/<uuid:dispatch_id>/cancel")
@requires(Permission.DISPATCH_CANCEL)
def cancel(dispatch_id: uuid.UUID) -> Json:
    """Cancel a dispatch; while a worker has it, the wish is noted."""
    reason = line(action_body(frozenset({"reason"})), "reason")
    access = current_access()
    if is_dry_run():
        return rehearsed(Press(dispatch_id, access), Trigger.CANCEL)
    row = cancel_dispatch(db.session, dispatch_id, access, reason=reason)
    return jsonify(short(row)), 202


@blueprint.post("/dispatches/<uuid:dispatch_id>/resend")
@requires(Permission.DISPATCH_RESEND)
def resend(dispatch_id: uuid.UUID) -> Json:
    """Make the dispatch that replaces this one."""
    confirm = flag(action_body(frozenset({"confirm"})), "confirm")
    access = current_access()
    if is_dry_run():
        return rehearsed(Press(dispatch_id, access, confirmed=confirm), Trigger.REPLACE)
    row = resend_dispatch(db.session, dispatch_id, access, confirm=confirm)
    response = jsonify({**short(row), "replaces": str(dispatch_id)})
    response.headers["Location"] = address(row.id)
    return response, 202


@blueprint.post("/dispatches/<uuid:dispatch_id>/check")
@requires(Permission.DISPATCH_CHECK)
def check(dispatch_id: uuid.UUID) -> Json:
    """Ask the provider about a dispatch now; what it says is applied."""
    action_body(frozenset())
    access = current_access()
    if is_dry_run():
        press = Press(dispatch_id, access)
        return would(press, rehearse_check(db.session, press))
    said = check_dispatch(db.session, dispatch_id, access)
    return jsonify({**short(story_of(db.session, dispatch_id, access).dispatch), "said": said}), 200


@blueprint.patch("/dispatches/<uuid:dispatch_id>")
@requires(Permission.DISPATCH_CREATE)
def reschedule(dispatch_id: uuid.UUID) -> Json:
    """Let a waiting dispatch go out at another time."""
    send_at, version = new_time()
    access = current_access()
    if is_dry_run():
        press = Press(dispatch_id, access, version)
        return would(press, rehearse_reschedule(db.session, press, send_at))
    row = reschedule_dispatch(db.session, dispatch_id, access, send_at=send_at, version=version)
    return jsonify(rescheduled(row)), 200


@blueprint.post("/attachments")
@requires(Permission.DISPATCH_CREATE)
def upload_file() -> Json:
    """Store a file that messages name by its id; with `Dry-Run: true` only check it."""
    file = one_file()
    who = asker()
    if is_dry_run():
        return jsonify(dry_run=True, filename=file.filename, size=len(file.content)), 200
    return jsonify(stored(upload(db.session, file, who))), 201


def rehearsed(press: Press, trigger: Trigger) -> Json:
    """Answer a dry run of an action: what would happen, or the very refusal."""
    return would(press, rehearse(db.session, press, trigger))


def would(press: Press, sentence: str) -> Json:
    """Answer with what a press would do."""
    return jsonify(dry_run=True, id=str(press.dispatch_id), would=sentence), 200


@blueprint.get("/sandbox/messages")
@requires(Permission.CONTENT_READ)
def sandbox_messages() -> Response:
    """List what the sandbox captured of the source, newest first; in development only."""
    if current().environment is not Environment.DEVELOPMENT:
        raise NotFound
    limit = request.args.get("limit", 50, type=int)
    found = newest_in_scope(
        db.session,
        current_access(),
        limit=max(1, min(limit, 200)),
        before=request.args.get("before", ""),
    )
    return jsonify(messages=[captured(one) for one in found])


@blueprint.get("/openapi.json")
@public("it describes the API and holds nothing of anybody")
def openapi() -> Response:
    """Describe this API."""
    return jsonify(description())
