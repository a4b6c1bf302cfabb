"""`/dispatches`: the list and one dispatch, each with the answer to its poller.

The presses are in `presses.py`, the framed content in `preview.py`.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlencode

from flask import Blueprint, Response, make_response, redirect, render_template, request, url_for
from werkzeug.wrappers import Response as AnyResponse

from dashboard.access.permissions import Permission
from dashboard.access.requires import public, requires
from dashboard.access.scope import current_access
from dashboard.database import database_now, db
from dashboard.dispatch.lists.search import Finder, Page, Place, View
from dashboard.dispatch.lists.search_text import as_id
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import LABELS, Channel
from dashboard.dispatch.story.overview import stamp
from dashboard.pages import listing
from dashboard.pages.detail import detail_of
from dashboard.pages.live import is_htmx, pace_of_list
from dashboard.pages.row import Row, row_of

blueprint = Blueprint("dispatches", __name__)

VIEWS = (
    (View.FIRST, "Needs attention first"),
    (View.ATTENTION, "Attention only"),
    (View.ACTIVE, "Active"),
    (View.DONE, "Done"),
    (View.ALL, "All"),
)
NEWER_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """A page of the list, ready to be written.

    Attributes:
        anchor: the newest row when the page was opened; later ones wait behind "14 newer".
        stamp: a fingerprint of what is shown.
    """

    listing: listing.Listing
    page: Page
    attention: Sequence[Row]
    rows: Sequence[Row]
    newer: int
    anchor: str
    stamp: str
    pace: float

    @property
    def poll(self) -> str:
        """The address that the poller asks; with the anchor only on the first page."""
        asked = {"anchor": self.anchor, "stamp": self.stamp}
        pairs = urlencode({name: value for name, value in asked.items() if value})
        query = "&".join(part for part in (self.listing.query, pairs) if part)
        return f"{url_for('dispatches.live_list')}?{query}"

    @property
    def is_empty(self) -> bool:
        """Whether nothing at all is shown."""
        return not self.rows and not self.attention


@blueprint.get("/")
@public("it only says where the pages are")
def home() -> AnyResponse:
    """Go to the list."""
    return redirect(url_for("dispatches.index"), 303)


@blueprint.post("/dispatches/search")
@requires(Permission.DISPATCH_LIST)
def search() -> AnyResponse:
    """Go to what a text finds: to the dispatch whose id it is, else to the list."""
    text = request.form.get("q", "")
    found = as_id(text)
    if found is not None:
        return redirect(url_for("dispatches.detail", dispatch_id=found), 303)
    if not text.strip():
        return redirect(url_for("dispatches.index"), 303)
    return redirect(url_for("dispatches.index", view="all", q=listing.seal(text)), 303)


@blueprint.get("/dispatches")
@requires(Permission.DISPATCH_LIST)
def index() -> Response:
    """Show a page of the list."""
    asked = listing.read(request.args)
    template = "dispatches/_results.html" if is_htmx() else "dispatches/list.html"
    return make_response(render_template(template, **words(shown(asked))))


@blueprint.get("/dispatches/live")
@requires(Permission.DISPATCH_LIST)
def live_list() -> Response:
    """Answer the list's poller: the rows as they are now, or 204 when nothing changed."""
    asked = listing.read(request.args)
    anchor = request.args.get("anchor", "")
    now = shown(asked, anchor=listing.unsign(anchor) if anchor else None)
    if now.stamp == request.args.get("stamp"):
        return Response(status=204)
    return make_response(render_template("dispatches/live_list.html", **words(now, oob=True)))


@blueprint.get("/dispatches/<uuid:dispatch_id>")
@requires(Permission.DISPATCH_READ)
def detail(dispatch_id: uuid.UUID) -> Response:
    """Show one dispatch."""
    template = "dispatches/_dispatch.html" if is_htmx() else "dispatches/detail.html"
    return make_response(render_template(template, this=detail_of(dispatch_id), oob=False))


@blueprint.get("/dispatches/<uuid:dispatch_id>/live")
@requires(Permission.DISPATCH_READ)
def live_detail(dispatch_id: uuid.UUID) -> Response:
    """Answer the page's poller: the page as it is now, or 204 when nothing changed."""
    if stamp(db.session, dispatch_id, current_access()) == request.args.get("stamp"):
        return Response(status=204)
    html = render_template("dispatches/live_dispatch.html", this=detail_of(dispatch_id), oob=True)
    return make_response(html)


def words(what: Shown, *, oob: bool = False) -> dict[str, object]:
    """Return what the templates of the list need; `oob` where the answer goes to a poller."""
    return {
        "shown": what,
        "listing": what.listing,
        "views": VIEWS,
        "states": list(LABELS.items()),
        "channels": [(Channel.EMAIL, "Email"), (Channel.SMS, "SMS")],
        "oob": oob,
        "newer_limit": NEWER_LIMIT,
    }


def shown(asked: listing.Listing, *, anchor: Place | None = None) -> Shown:
    """Read a page of the list; with an anchor, the first page as it stood at that moment."""
    access = current_access()
    finder = Finder(access, asked.filters)
    is_first = asked.after is None and asked.before is None
    page = finder.page(db.session, after=asked.after, before=asked.before, up_to=anchor)
    newer = finder.count_newer(db.session, anchor, NEWER_LIMIT) if anchor and is_first else 0
    now = database_now(db.session)
    attention = [row_of(row, now, access) for row in page.attention]
    rows = [row_of(row, now, access) for row in page.rows]
    everything = [*page.attention, *page.rows]
    return Shown(
        listing=asked,
        page=page,
        attention=attention,
        rows=rows,
        newer=newer,
        anchor=listing.sign(anchor or _newest(page, now)) if is_first else "",
        stamp=_stamp(everything, newer),
        pace=pace_of_list(everything, now),
    )


def _newest(page: Page, now: datetime) -> Place:
    """Return the place behind which rows count as newer than the page."""
    newest = max(((row.created_at, row.id) for row in page.rows), default=None)
    return Place(*newest) if newest else Place(now, uuid.UUID(int=0))


def _stamp(rows: Sequence[Dispatch], newer: int) -> str:
    return listing.digest([(row.id, row.version, row.updated_at, row.hold) for row in rows], newer)
