"""`/preferences/…`: how somebody wants to see the pages; kept in their browser."""

from flask import Blueprint, redirect, request
from werkzeug.wrappers import Response

from dashboard.access.next_page import safe_next
from dashboard.access.permissions import Permission
from dashboard.access.requires import requires
from dashboard.pages.presentation import THEMES

blueprint = Blueprint("preferences", __name__, url_prefix="/preferences")

YEAR_SECONDS = 365 * 24 * 3600


@blueprint.post("/theme")
@requires(Permission.DISPATCH_LIST)
def theme() -> Response:
    """Remember the theme and go back to the page that it was chosen on."""
    chosen = request.form.get("theme", "")
    answer = redirect(safe_next(request.form.get("next", "")), 303)
    if chosen in THEMES:
        answer.set_cookie(
            "theme", chosen, max_age=YEAR_SECONDS, secure=request.is_secure, samesite="Lax"
        )
    return answer
