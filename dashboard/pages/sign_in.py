"""`/login`, `/logout`, `/setup/…`, `/invitation/…`: the doors; and who a request is from.

Errors of the forms are shown in the forms; `init_app` adds the answer to "nobody is signed in".
"""

from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import (
    Blueprint,
    Flask,
    Request,
    Response,
    current_app,
    g,
    make_response,
    redirect,
    render_template,
    request,
    session,
    url_for,
)
from flask_login import LoginManager, current_user
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wrappers import Response as AnyResponse

from dashboard.access import sessions, setup
from dashboard.access import sign_in as access_sign_in
from dashboard.access.counters import SteadyCounters
from dashboard.access.next_page import safe_next
from dashboard.access.passwords import PasswordRefused
from dashboard.access.requires import public
from dashboard.access.scope import SignInNeeded
from dashboard.access.sessions import Browser, Person
from dashboard.access.setup import LinkInvalid
from dashboard.access.sign_in import WrongPassword
from dashboard.access.throttle import Throttle, TooManyTries
from dashboard.access.users import EmailRefused
from dashboard.database import db
from dashboard.pages.security import WITHOUT_COOKIE, session_cookie
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings

blueprint = Blueprint("sign_in", __name__)

WRONG = "Email or password is wrong."
DIFFERENT = "The two passwords are not the same."
_THROTTLE = "wireroom_throttle"


def init_app(app: Flask, settings: Settings) -> None:
    """Add the pages, and tell Flask-Login who a request is from."""
    manager = LoginManager(app)
    # A session here is a row, so that there is nothing to protect in the cookie.
    manager.session_protection = None
    manager.request_loader(_who)
    # A cookie of this name makes Flask-Login not ask who it is; other applications on the same
    # host leave one. No cookie can have this name.
    app.config["REMEMBER_COOKIE_NAME"] = ";"
    app.extensions[_THROTTLE] = Throttle(
        SteadyCounters(redis_connection(settings)), settings.secret_key.get_secret_value()
    )
    app.register_blueprint(blueprint)
    app.teardown_request(_forget)
    app.register_error_handler(SignInNeeded, ask_to_sign_in)


def _who(asked: Request) -> Person | None:
    """Return who a page is asked for by. Elsewhere a cookie counts for nothing (see `security`)."""
    cookie = asked.cookies.get(session_cookie(current_app), "")
    if not cookie or WITHOUT_COOKIE.intersection(asked.blueprints):
        return None
    return sessions.find_person(db.session, cookie)


def _forget(_: BaseException | None) -> None:
    """Drop who it was: an application context around several requests (tests) shares `g`."""
    for name in ("_login_user", "csrf_token", "access"):
        g.pop(name, None)


def ask_to_sign_in(_: SignInNeeded) -> AnyResponse:
    """Answer a page that needs somebody: with the form, or what htmx understands.

    The API answers by itself (`api_problems.py`).
    """
    if not setup.administrator_exists(db.session):
        where = url_for("sign_in.set_up_first")
    else:
        where = f"{url_for('sign_in.login')}?{urlencode({'next': _asked_page()})}"
    if request.headers.get("HX-Request") == "true":
        return Response(status=401, headers={"HX-Redirect": where})
    return redirect(where, 303)


def _asked_page() -> str:
    """Return the page to come back to; for a form that was posted there is none."""
    if request.headers.get("HX-Request") == "true":
        here = urlsplit(request.headers.get("HX-Current-URL", ""))
        return safe_next(here.path + (f"?{here.query}" if here.query else ""))
    if request.method not in ("GET", "HEAD"):
        return safe_next("")
    return safe_next(request.full_path.rstrip("?"))


@blueprint.get("/login")
@public("the form to sign in with")
def login() -> AnyResponse:
    """Show the form; go on where somebody is signed in already."""
    if not setup.administrator_exists(db.session):
        return redirect(url_for("sign_in.set_up_first"), 303)
    next_page = safe_next(request.args.get("next", ""))
    if current_user.is_authenticated:
        return redirect(next_page, 303)
    ended = session_cookie(current_app) in request.cookies
    return make_response(_form("form", next=next_page, ended=ended))


@blueprint.post("/login")
@public("signs in by password, throttled")
def submit_login() -> AnyResponse:
    """Sign in, and go where the visitor wanted to go."""
    if not setup.administrator_exists(db.session):
        return redirect(url_for("sign_in.set_up_first"), 303)
    next_page = safe_next(request.form.get("next", ""))
    email, password = request.form.get("email", ""), request.form.get("password", "")
    throttle: Throttle = current_app.extensions[_THROTTLE]
    try:
        cookie = access_sign_in.sign_in(
            db.session, throttle, email=email, password=password, browser=_browser()
        )
    except WrongPassword:
        return _again("form", 401, WRONG, email=email, next=next_page)
    except TooManyTries as wait:
        answer = _again("form", 429, str(wait), email=email, next=next_page)
        answer.headers["Retry-After"] = str(wait.retry_after)
        return answer
    return _signed_in(cookie, next_page)


@blueprint.post("/logout")
@public("ends the session of whoever asks")
def logout() -> AnyResponse:
    """End the session of this browser."""
    if current_user.is_authenticated:
        access_sign_in.sign_out(db.session, current_user._get_current_object())
    session.clear()
    answer = redirect(url_for("sign_in.login"), 303)
    answer.delete_cookie(session_cookie(current_app), **_cookie_options())
    return answer


@blueprint.get("/setup")
@public("says where the setup link is; there is nobody yet who could sign in")
def set_up_first() -> AnyResponse:
    """Say that the console shows the setup link."""
    if setup.administrator_exists(db.session):
        return redirect(url_for("sign_in.login"), 303)
    return make_response(_form("set_up_first"))


@blueprint.get("/setup/<token>")
@public("the one-time link on the console is the credential")
def show_setup(token: str) -> AnyResponse:
    """Show the form for the first administrator."""
    try:
        setup.find_link(db.session, setup.SETUP, token)
    except LinkInvalid:
        return _link_over("Print a new one with wireroom setup-link.")
    return make_response(_form("setup"))


@blueprint.post("/setup/<token>")
@public("the one-time link on the console is the credential")
def submit_setup(token: str) -> AnyResponse:
    """Make the first administrator and sign in."""
    email, password = request.form.get("email", ""), request.form.get("password", "")
    if password != request.form.get("again", ""):
        return _again("setup", 400, DIFFERENT, email=email)
    try:
        cookie = setup.make_administrator(
            db.session, token, email=email, password=password, browser=_browser()
        )
    except LinkInvalid:
        return _link_over("Print a new one with wireroom setup-link.")
    except (EmailRefused, PasswordRefused) as problem:
        return _again("setup", 400, str(problem), email=email)
    return _signed_in(cookie, safe_next(""))


@blueprint.get("/invitation/<token>")
@public("the one-time link is the credential")
def show_invitation(token: str) -> AnyResponse:
    """Show the form in which a user sets a password."""
    try:
        link = setup.find_link(db.session, setup.INVITATION, token)
    except LinkInvalid:
        return _link_over("Ask an administrator for a new one.")
    return make_response(_form("invitation", email=link.email))


@blueprint.post("/invitation/<token>")
@public("the one-time link is the credential")
def submit_invitation(token: str) -> AnyResponse:
    """Set the password and sign in."""
    password = request.form.get("password", "")
    try:
        email = setup.find_link(db.session, setup.INVITATION, token).email
        if password != request.form.get("again", ""):
            return _again("invitation", 400, DIFFERENT, email=email)
        cookie = setup.accept_invitation(db.session, token, password=password, browser=_browser())
    except LinkInvalid:
        return _link_over("Ask an administrator for a new one.")
    except PasswordRefused as problem:
        return _again("invitation", 400, str(problem), email=email)
    return _signed_in(cookie, safe_next(""))


@blueprint.errorhandler(RequestEntityTooLarge)
def _too_large(_: RequestEntityTooLarge) -> AnyResponse:
    """Answer a form that no browser of ours sends."""
    return make_response("This form is too large. Nothing was changed.", 400)


def _signed_in(cookie: str, next_page: str) -> AnyResponse:
    session.clear()  # with its CSRF token: what was made before signing in counts no more
    answer = redirect(next_page, 303)
    answer.set_cookie(
        session_cookie(current_app),
        cookie,
        max_age=int(sessions.ABSOLUTE.total_seconds()),
        **_cookie_options(),
    )
    return answer


def _cookie_options() -> dict[str, Any]:
    secure = bool(current_app.config["SESSION_COOKIE_SECURE"])
    return {"secure": secure, "httponly": True, "samesite": "Lax", "path": "/"}


def _form(name: str, **values: Any) -> str:
    facts = {"problem": "", "email": "", "next": safe_next(""), "ended": False, **values}
    return render_template(f"sign_in/{name}.html", **facts)


def _again(name: str, status: int, problem: str, **values: Any) -> AnyResponse:
    return make_response(_form(name, problem=problem, **values), status)


def _link_over(advice: str) -> AnyResponse:
    return make_response(render_template("sign_in/link_over.html", advice=advice), 410)


def _browser() -> Browser:
    return Browser(
        address=request.remote_addr or "",
        user_agent=request.headers.get("User-Agent", ""),
        cookie=request.cookies.get(session_cookie(current_app), ""),
    )
