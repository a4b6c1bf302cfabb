"""Who calls the API: a bearer token, never a cookie, so that no site can act for a browser."""

from flask import current_app, g, request

from dashboard.access.models import Source
from dashboard.access.permissions import Permission
from dashboard.access.scope import SignInNeeded, access_of_token, current_access
from dashboard.access.tokens import bearer, find_token
from dashboard.database import db
from dashboard.dispatch.request.rows import Asker
from dashboard.pages.api_problems import TokenRefused
from dashboard.settings import current


def sign_in() -> None:
    """Make the bearer token the access of this request; a session cookie counts for nothing.

    Commits that the token was used, so that no request holds its row.

    Raises:
        TokenRefused: a token was sent, and it is not one that is valid now.
        SignInNeeded: there is none, and the route is not public. Asked here: `current_access` also
            knows the cookie of a signed-in person, which any site can make a browser send.
    """
    g.access = g.source = None
    header = request.headers.get("Authorization", "")
    if not header:
        if not _is_public():
            raise SignInNeeded
        return
    token = find_token(db.session, bearer(header))
    db.session.commit()
    if token is None:
        raise TokenRefused("This API token is unknown, expired or revoked. Ask for a new one.")
    g.access = access_of_token(token)
    g.source = token.source


def _is_public() -> bool:
    view = current_app.view_functions.get(request.endpoint or "")
    return hasattr(view, "public")


def asker() -> Asker:
    """Return whom a message is accepted for: the token's source.

    Raises:
        NotAllowed: when the token may not create dispatches.
        SignInNeeded: when there is no token.
    """
    access = current_access()
    source: Source | None = g.source
    if source is None:
        raise SignInNeeded
    access.require(Permission.DISPATCH_CREATE, source.id)
    return Asker(source, access.actor, current())
