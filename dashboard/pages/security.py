"""What surrounds every page: headers, CSRF, hosts, proxies, body limits.

The pages of sign-in are in `sign_in.py`. Previews and attachments set a stricter CSP themselves.
"""

import hashlib
import hmac
from urllib.parse import urlsplit

from flask import Flask, Response, abort, current_app, request, session
from flask_wtf.csrf import CSRFError, CSRFProtect
from werkzeug.middleware.proxy_fix import ProxyFix
from werkzeug.sansio.utils import host_is_trusted

from dashboard.settings import Settings

# These blueprints know no cookie: a token or a signature is the credential, so that no browser can
# be made to use them, whatever page or name it believes to be at.
WITHOUT_COOKIE = frozenset({"api", "webhooks", "health"})
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_UNSAFE = frozenset({"POST", "PUT", "PATCH", "DELETE"})

PAGE_BYTES = 1024 * 1024
# A message of the largest files in base64, and a batch of a thousand messages without any.
_API_FACTOR = 3
_CDN = (
    "https://cdn.jsdelivr.net/npm/htmx.org@2.0.11/dist/htmx.min.js",
    "https://cdn.jsdelivr.net/npm/idiomorph@0.8.0/dist/idiomorph-ext.min.js",
)
_STALE_FORM = (
    "This form is too old, or was opened before you signed in. Nothing was changed."
    " Go back, reload the page and press again."
)
_FOREIGN = "This request came from another site, so nothing was changed. Open the page here."
_UNSTORABLE = (
    "What was sent holds a NUL character, which cannot be stored, so nothing was changed."
    " Go back, remove it and press again."
)
_CSRF_KEY = "csrf_token"

csrf = CSRFProtect()


def init_app(app: Flask, settings: Settings) -> None:
    """Add headers and checks to an application; call it before pages are registered."""
    secure = settings.public_base_url.startswith("https://")
    prefix = "__Host-" if secure else ""
    app.config.update(
        SESSION_COOKIE_NAME=f"{prefix}wireroom_form",
        SESSION_COOKIE_SECURE=secure,
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        SESSION_COOKIE_PATH="/",
        MAX_CONTENT_LENGTH=max(settings.attachment_max_bytes * _API_FACTOR, 32 * PAGE_BYTES),
        MAX_FORM_MEMORY_SIZE=PAGE_BYTES,
        MAX_FORM_PARTS=2000,
        # Bound to the session, so that a page that was open over lunch still works.
        WTF_CSRF_TIME_LIMIT=None,
        # Pages send no Referer; `_refuse_other_sites` looks at what browsers say instead.
        WTF_CSRF_SSL_STRICT=False,
        WTF_CSRF_CHECK_DEFAULT=False,
        WIREROOM_SESSION_COOKIE=f"{prefix}wireroom_session",
        WIREROOM_HOSTS=_trusted_hosts(settings),
        WIREROOM_HEADERS=_headers(settings, secure=secure),
    )
    if settings.trusted_proxies:
        hops = settings.trusted_proxies
        # Flask's documented way to add middleware. Only headers that each proxy sets are read.
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=hops, x_proto=hops)  # type: ignore[method-assign]
    csrf.init_app(app)
    for check in (
        _refuse_foreign_hosts,
        _limit_body,
        _refuse_other_sites,
        _check_csrf,
        _refuse_unstorable,
    ):
        app.before_request(check)
    app.after_request(_add_headers)


def session_cookie(app: Flask) -> str:
    """Return the name of the cookie that signs somebody in."""
    name: str = app.config["WIREROOM_SESSION_COOKIE"]
    return name


def content_security_policy(*, cdn: bool) -> str:
    """Return the policy of every page: nothing inline, scripts from here or from two full paths."""
    scripts = " ".join(["'self'", *(_CDN if cdn else ())])
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'self'; img-src 'self' data:;"
        " font-src 'self'; connect-src 'self'; frame-src 'self'; form-action 'self';"
        " base-uri 'none'; frame-ancestors 'none'; object-src 'none'"
    )


def _headers(settings: Settings, *, secure: bool) -> dict[str, str]:
    headers = {
        "Content-Security-Policy": content_security_policy(cdn=settings.assets == "cdn"),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
        "X-Frame-Options": "DENY",
        "X-Robots-Tag": "noindex, nofollow",
    }
    if secure:
        headers["Strict-Transport-Security"] = "max-age=31536000"
    return headers


def _trusted_hosts(settings: Settings) -> list[str]:
    """Return the names under which a browser may open the pages."""
    public = urlsplit(settings.public_base_url).hostname or ""
    named = [name.strip() for name in settings.trusted_hosts.split(",")]
    return [name for name in (public, *named, *_LOOPBACK) if name]


def _has_cookie_rights() -> bool:
    """Return whether this request could do something by a cookie."""
    return request.endpoint is not None and not WITHOUT_COOKIE.intersection(request.blueprints)


def _refuse_foreign_hosts() -> None:
    """Refuse pages under a name that is not ours: that is how DNS rebinding gets to them."""
    trusted: list[str] = current_app.config["WIREROOM_HOSTS"]
    if _has_cookie_rights() and not host_is_trusted(request.host, trusted):
        abort(
            400,
            "This host name is not Wireroom's. Set PUBLIC_BASE_URL or"
            " WIREROOM_TRUSTED_HOSTS to the name in the address bar.",
        )


def _limit_body() -> None:
    if not WITHOUT_COOKIE.intersection(request.blueprints):
        request.max_content_length = PAGE_BYTES


def _refuse_other_sites() -> None:
    """Refuse what a browser says was sent by another site's page.

    Over plain HTTP, except on localhost, browsers say nothing; the token is checked in any case.
    """
    if request.method not in _UNSAFE or not _has_cookie_rights():
        return
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        abort(403, _FOREIGN)
    origin = request.headers.get("Origin", "null")
    # Pages under "no-referrer" post with Origin "null".
    if origin != "null" and urlsplit(origin).netloc != request.host:
        abort(403, _FOREIGN)


def _check_csrf() -> None:
    """Check the token of a form, after tying it to the session that the browser has."""
    if not _has_cookie_rights() or request.endpoint == "static":
        return
    _tie_to_session()
    if not current_app.config["WTF_CSRF_ENABLED"]:
        return
    try:
        csrf.protect()
    except CSRFError:
        abort(400, _STALE_FORM)


def _refuse_unstorable() -> None:
    """Refuse a NUL in whatever a page is asked with: PostgreSQL takes none in a text.

    Here once, for every field of every form; the API names the field (`fields.text_problem`).
    Half surrogate pairs cannot come this way: Werkzeug has replaced them.
    """
    if not _has_cookie_rights() or request.endpoint == "static":
        return
    given = [*request.args.items(multi=True), *request.form.items(multi=True)]
    # `next` is never stored, and a false one leads home by the rule of `access/next_page`.
    if any("\0" in text for pair in given if pair[0] != "next" for text in pair):
        abort(400, _UNSTORABLE)


def _tie_to_session() -> None:
    """Make the CSRF token a function of the sign-in cookie: one of another session is wrong.

    Flask-WTF alone compares the form with a cookie of its own, which somebody who can set cookies
    for a neighbouring host could replace together with the form's token.
    """
    cookie = request.cookies.get(session_cookie(current_app), "")
    if not cookie:
        return
    key = str(current_app.secret_key).encode()
    tied = hmac.new(key, f"csrf:{cookie}".encode("utf-8", "replace"), hashlib.sha256).hexdigest()
    if session.get(_CSRF_KEY) != tied:
        session[_CSRF_KEY] = tied


def _add_headers(response: Response) -> Response:
    headers: dict[str, str] = current_app.config["WIREROOM_HEADERS"]
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    if request.endpoint != "static":
        response.headers.setdefault("Cache-Control", "no-store")
    return response
