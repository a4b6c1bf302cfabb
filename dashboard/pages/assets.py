"""Static files by fingerprint, and the two scripts of others from the CDN or from here.

Nothing is inline anywhere; the policy that sees to it is in `security.py`.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flask import Flask, Response, request, url_for

from dashboard.settings import current

STATIC = Path(__file__).resolve().parents[2] / "static"
LONG = "public, max-age=31536000, immutable"


@dataclass(frozen=True, slots=True)
class Script:
    """A script of others: where the CDN has it, our copy, and the hash that both must have."""

    cdn: str
    local: str
    integrity: str


HTMX = Script(
    cdn="https://cdn.jsdelivr.net/npm/htmx.org@2.0.11/dist/htmx.min.js",
    local="vendor/htmx-2.0.11.min.js",
    integrity="sha384-2OatzQy1H+Zd/IIrjr1TcuDGqLXeHhbooAyJY1KdQMKnr4LZ22k31GBLdYKHmVjg",
)
IDIOMORPH = Script(
    cdn="https://cdn.jsdelivr.net/npm/idiomorph@0.8.0/dist/idiomorph-ext.min.js",
    local="vendor/idiomorph-ext-0.8.0.min.js",
    integrity="sha384-+iBk70O0UWQdSjXQSQ7amSxXCrsWq/6UOtvC9rDo0p7telbTSOyttExq6QCFBzNk",
)
SCRIPTS = (HTMX, IDIOMORPH)

# By default htmx shows no answer of 4xx or 5xx, so that a refused press would look like nothing.
HTMX_CONFIG = (
    '{"allowEval":false,"allowScriptTags":false,"includeIndicatorStyles":false,'
    '"historyCacheSize":0,"refreshOnHistoryMiss":true,"historyRestoreAsHxRequest":false,'
    '"selfRequestsOnly":true,"timeout":15000,"scrollBehavior":"instant",'
    '"responseHandling":[{"code":"204","swap":false},{"code":"[23]..","swap":true},'
    '{"code":"400|401|403|404|405|409|413|422|429|5..","swap":true},{"code":"...","swap":false}]}'
)


@cache
def fingerprint(name: str) -> str:
    """Return the first characters of the hash of a static file: its address changes with it."""
    return hashlib.sha256((STATIC / name).read_bytes()).hexdigest()[:12]


def asset(name: str) -> str:
    """Return the address of a static file, with its fingerprint."""
    return url_for("static", filename=name, v=fingerprint(name))


@dataclass(frozen=True, slots=True)
class Tag:
    """What the script tag of a page says."""

    url: str
    local: str
    integrity: str
    is_remote: bool


def scripts() -> list[Tag]:
    """Return the script tags of a page, by the setting ASSETS."""
    is_remote = current().assets == "cdn"
    return [
        Tag(one.cdn if is_remote else asset(one.local), asset(one.local), one.integrity, is_remote)
        for one in SCRIPTS
    ]


def cache_for_long(response: Response) -> Response:
    """Let browsers keep what they asked for by fingerprint; everything else they ask for again."""
    if request.endpoint == "static":
        has_fingerprint = "v" in request.args and response.status_code == 200
        response.headers["Cache-Control"] = LONG if has_fingerprint else "no-cache"
    return response


def register(app: Flask) -> None:
    """Let the static files of an application be kept."""
    app.after_request(cache_for_long)
