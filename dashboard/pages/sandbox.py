"""`/sandbox`: what the sandbox captured, in development only: the messages and each one's parts.

Whatever was sent may be hostile: HTML is shown in a frame that can do nothing, files are handed
out as downloads of no particular type.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar
from urllib.parse import quote

from flask import Blueprint, Response, render_template, request
from werkzeug.exceptions import NotFound

from dashboard.access.permissions import Permission
from dashboard.access.requires import requires
from dashboard.access.scope import current_access
from dashboard.database import db
from dashboard.pages.preview import data_address, framed
from dashboard.pages.sandbox_scope import in_scope, newest_in_scope
from dashboard.providers import sandbox_mail
from dashboard.providers.sandbox_mail import CapturedMessage, CapturedSummary
from dashboard.settings import Environment, current

blueprint = Blueprint("sandbox", __name__, url_prefix="/sandbox")

PAGE_ROWS = 50
SOURCE_SHOWN = 200_000
_NEEDED = Permission.CONTENT_READ
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Captured:
    """A page of captured messages; `before` is where the next page starts, if there is one."""

    messages: list[CapturedSummary]
    kept: int
    before: str = ""
    is_first: bool = True


def in_development(view: Callable[P, R]) -> Callable[P, R]:
    """Let a view exist only where nothing real is sent."""

    @wraps(view)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        if current().environment is not Environment.DEVELOPMENT:
            raise NotFound
        return view(*args, **kwargs)

    return guarded


@blueprint.get("")
@requires(_NEEDED)
@in_development
def messages() -> str:
    """List what was captured, newest first."""
    before = request.args.get("before", "")
    access = current_access()
    found = newest_in_scope(db.session, access, limit=PAGE_ROWS + 1, before=before)
    shown = found[:PAGE_ROWS]
    page = Captured(
        messages=shown,
        # How much others send is theirs to know.
        kept=sandbox_mail.count(current().data_dir)
        if access.allows_everywhere(_NEEDED)
        else len(shown),
        before=shown[-1].id if len(found) > PAGE_ROWS else "",
        is_first=not before,
    )
    return render_template("sandbox/messages.html", page=page)


@blueprint.get("/<message_id>")
@requires(_NEEDED)
@in_development
def message(message_id: str) -> str:
    """Show one captured message: as it looks, as text, its headers, its files, its source."""
    found = _load(message_id)
    source = found.raw[:SOURCE_SHOWN].decode("utf-8", "replace")
    return render_template("sandbox/message.html", message=found, source=source)


@blueprint.get("/<message_id>/preview")
@requires(_NEEDED)
@in_development
def preview(message_id: str) -> Response:
    """Show the HTML of a captured message in a frame, its inline pictures in it."""
    found = _load(message_id)
    pictures = {
        file.content_id: data_address(file.content_type, file.content)
        for file in found.files
        if file.content_id
    }
    return framed(found.html, {name: address for name, address in pictures.items() if address})


@blueprint.get("/<message_id>/files/<int:number>")
@requires(_NEEDED)
@in_development
def file(message_id: str, number: int) -> Response:
    """Hand out one file of a captured message, counted from 1."""
    files = _load(message_id).files
    if not 1 <= number <= len(files):
        raise NotFound
    wanted = files[number - 1]
    return _download(wanted.content, wanted.filename or f"part-{number}")


@blueprint.get("/<message_id>/source")
@requires(_NEEDED)
@in_development
def source(message_id: str) -> Response:
    """Hand out a captured message as it came over the wire."""
    return _download(_load(message_id).raw, f"{message_id}.eml")


def _load(message_id: str) -> CapturedMessage:
    found = sandbox_mail.load(current().data_dir, message_id)
    if found is None or not in_scope(db.session, current_access(), [found.summary]):
        raise NotFound
    return found


def _download(content: bytes, name: str) -> Response:
    plain = "".join(one for one in name if one.isprintable() and one not in '/\\"') or "file"
    ascii_name = plain.encode("ascii", "replace").decode().replace("?", "_")
    encoded = quote(plain, safe="")
    response = Response(content, content_type="application/octet-stream")
    response.headers["Content-Disposition"] = (
        f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{encoded}"
    )
    response.headers["Content-Security-Policy"] = "default-src 'none'; sandbox"
    response.headers["Cache-Control"] = "no-store"
    return response
