"""What is answered when something went wrong: a page, a notice for htmx, or a problem for the API.

The person reads what happened, what the system did about it and what to press. A traceback goes to
the log, under a number that the page shows. The pages here need no database: it may be what is
away.
"""

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from flask import Flask, Response, g, render_template, request, url_for
from flask_login import AnonymousUserMixin
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException, InternalServerError
from werkzeug.wrappers import Response as AnyResponse

from dashboard.access.scope import NotAllowed, OutOfScope
from dashboard.database import db
from dashboard.dispatch.actions.press import ActionRefused
from dashboard.pages.api_problems import problem

logger = logging.getLogger("wireroom.web")

RETRY_SECONDS = 15
API_PATH = "/api/"
WEBHOOK_PATH = "/webhooks/"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong, in the words of the page.

    Attributes:
        advice: what to do or to press now.
        looks_again: the page asks again by itself: the trouble is expected to pass.
    """

    status: int
    headline: str
    advice: str = ""
    looks_again: bool = False

    @property
    def sentence(self) -> str:
        """Both parts, for answers that have one line."""
        return f"{self.headline} {self.advice}".strip()


NOT_SENT = "Nothing was changed."
TROUBLES: Mapping[int, Trouble] = {
    one.status: one
    for one in (
        Trouble(400, "This request cannot be read.", f"{NOT_SENT} Go back and try again."),
        Trouble(401, "You are not signed in.", "Sign in, then open the page again."),
        Trouble(403, "You may not do this.", f"{NOT_SENT} Ask an administrator for the right."),
        Trouble(
            404,
            "There is nothing here.",
            "The address is wrong, what it showed was deleted, or it is not yours to see.",
        ),
        Trouble(405, "This address is for pressing a button.", "Go back to the page it is on."),
        Trouble(409, "Somebody else was first.", f"{NOT_SENT} Look at it again."),
        Trouble(410, "This is over.", "The link or page it belongs to is no longer valid."),
        Trouble(413, "This is too large.", f"{NOT_SENT} Send less at once."),
        Trouble(415, "This is of a type that nobody reads here.", NOT_SENT),
        Trouble(429, "That was too often.", f"{NOT_SENT} Wait a minute, then try again."),
        Trouble(
            500,
            "Wireroom failed on this page.",
            "It is in the log with the number below. Messages go on being sent.",
        ),
    )
}
DATABASE_AWAY = Trouble(
    503,
    "The database does not answer.",
    "Nothing can be shown or changed until PostgreSQL is back. Workers keep what they know and"
    " write it down then; nothing is lost. Look at PostgreSQL, then run: wireroom doctor.",
    looks_again=True,
)
DATABASE_BUSY = Trouble(
    503,
    "The database is too busy for this.",
    f"{NOT_SENT} Somebody else holds the row, or the question took too long. Try again.",
    looks_again=True,
)
# What PostgreSQL says when a lock or a statement took too long.
BUSY_STATES = frozenset({"55P03", "57014", "40P01"})


def trouble_of(error: Exception) -> Trouble:
    """Return the words for an error. Pure."""
    match error:
        case ActionRefused():
            return Trouble(error.status, error.sentence, NOT_SENT)
        case NotAllowed():
            return Trouble(403, TROUBLES[403].headline, str(error) or TROUBLES[403].advice)
        case OutOfScope():
            return TROUBLES[404]
        case PoolTimeout():
            return DATABASE_BUSY
        case DBAPIError():
            return _of_database(error)
        case HTTPException():
            return _of_http(error)
        case _:
            return TROUBLES[500]


def _of_database(error: DBAPIError) -> Trouble:
    if getattr(error.orig, "sqlstate", None) in BUSY_STATES:
        return DATABASE_BUSY
    is_away = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return DATABASE_AWAY if is_away else TROUBLES[500]


def _of_http(error: HTTPException) -> Trouble:
    status = error.code or 500
    known = TROUBLES.get(status)
    if known is None:
        return Trouble(status, f"{HTTPStatus(status).phrase}.", error.description or "")
    is_ours = error.description not in (None, type(error).description)
    if not is_ours or status >= 500:
        return known
    return Trouble(status, known.headline, str(error.description))


def answer(error: Exception) -> AnyResponse:
    """Return the answer to a request that ended in an error; logs what a person has to look at."""
    if isinstance(error, HTTPException) and error.response is not None:
        return error.get_response()
    if isinstance(error, InternalServerError) and isinstance(error.original_exception, Exception):
        error = error.original_exception  # raised while another error was being answered
    trouble = trouble_of(error)
    number = secrets.token_hex(4) if trouble.status >= 500 else ""
    if number:
        db.session.remove()
        # Flask-Login gives every template the user, and would ask the database for them now.
        g.setdefault("_login_user", AnonymousUserMixin())
        _log(error, trouble, number)
    response = _written(trouble, number)
    _copy_headers(error, response)
    if trouble.looks_again:
        response.headers["Retry-After"] = str(RETRY_SECONDS)
        if request.method == "GET":
            response.headers["Refresh"] = str(RETRY_SECONDS)
    response.headers["Cache-Control"] = "no-store"
    return response


def _log(error: Exception, trouble: Trouble, number: str) -> None:
    facts = {"error_number": number, "path": request.path, "error": type(error).__name__}
    if trouble.status == 503:
        logger.error("request failed", extra=facts)
    else:
        logger.error("request failed", extra=facts, exc_info=error)


def _written(trouble: Trouble, number: str) -> Response:
    if request.path.startswith(API_PATH):
        return problem(trouble.status, _numbered(trouble.sentence, number))
    if request.path.startswith(WEBHOOK_PATH):
        return Response(trouble.headline, trouble.status, content_type="text/plain; charset=utf-8")
    if request.headers.get("HX-Request") == "true":
        return _notice(trouble, number)
    page = render_template(
        "errors/error.html",
        trouble=trouble,
        number=number,
        again=RETRY_SECONDS if trouble.looks_again and request.method == "GET" else 0,
        home=url_for("static", filename="").removesuffix("static/"),
    )
    return Response(page, trouble.status)


def _numbered(sentence: str, number: str) -> str:
    return f"{sentence} Number {number}." if number else sentence


def _notice(trouble: Trouble, number: str) -> Response:
    """Return the notice for a page that stays as it is: htmx puts it above everything else."""
    content = render_template("errors/_notice.html", trouble=trouble, number=number)
    response = Response(content, trouble.status)
    response.headers["HX-Retarget"] = "#notices"
    response.headers["HX-Reswap"] = "innerHTML"
    response.headers["HX-Reselect"] = "#errors-notice"
    return response


def _copy_headers(error: Exception, response: Response) -> None:
    if not isinstance(error, HTTPException):
        return
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after", "www-authenticate"):
            response.headers[name] = value


def register(app: Flask) -> None:
    """Answer every error of an application; a handler nearer to the error comes first."""
    for kind in (HTTPException, NotAllowed, OutOfScope, ActionRefused, Exception):
        app.register_error_handler(kind, answer)
