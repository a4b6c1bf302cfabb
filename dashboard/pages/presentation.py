"""How values look on a page: times in the viewer's zone, sizes, labels.

Holds no rule of the domain: what a state means is said by `dashboard.dispatch.story.sentence`.
"""

from datetime import UTC, datetime
from urllib.parse import unquote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flask import Flask, g, has_request_context, request
from flask_wtf.csrf import generate_csrf
from markupsafe import Markup

from dashboard import clock
from dashboard.dispatch.states import LABELS, State
from dashboard.dispatch.story.wording import precise_duration
from dashboard.pages.assets import HTMX_CONFIG, asset, scripts
from dashboard.pages.shell import shell
from dashboard.settings import Settings

THEMES = ("auto", "light", "dark")


def register(app: Flask, settings: Settings) -> None:
    """Give every template the words and shapes that it may use."""
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(
        brief=brief,
        commands=commands,
        exact=exact,
        iso=iso,
        label=label,
        size=size,
        duration=precise_duration,
    )
    app.jinja_env.globals.update(
        asset=asset,
        scripts=scripts,
        csrf_field=csrf_field,
        environment=lambda: settings.environment.value,
        htmx_config=HTMX_CONFIG,
        now_iso=lambda: iso(clock.now()),
        shell=shell,
        theme=theme,
        themes=THEMES,
        zone_name=zone_name,
    )


def csrf_field() -> Markup:
    """Return the hidden field that proves that a form is ours."""
    return Markup('<input type="hidden" name="csrf_token" value="{}">').format(generate_csrf())


def theme() -> str:
    """Return the theme that the viewer chose on this browser, else the one of their account."""
    chosen = _chosen("theme", "theme")
    return chosen if chosen in THEMES else "auto"


def _chosen(cookie: str, attribute: str) -> str:
    """Return what this browser, else the account, has chosen; never asks the database for it."""
    if not has_request_context():
        return ""
    return request.cookies.get(cookie) or getattr(g.get("_login_user"), attribute, "") or ""


def zone() -> ZoneInfo:
    """Return the viewer's time zone: what their browser said, else of their account, else UTC."""
    name = unquote(_chosen("tz", "time_zone"))
    try:
        return ZoneInfo(name) if name and len(name) <= 64 else ZoneInfo("UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return ZoneInfo("UTC")


def zone_name() -> str:
    """Return the viewer's time zone as it is written behind a time."""
    return clock.now().astimezone(zone()).strftime("%Z")


def brief(at: datetime) -> str:
    """Return a moment as short as it can be without being mistaken for another day."""
    local = at.astimezone(zone())
    today = clock.now().astimezone(zone())
    if local.date() == today.date():
        return f"{local:%H:%M:%S}"
    if local.year == today.year:
        return f"{local.day} {local:%b, %H:%M}"
    return f"{local.day} {local:%b %Y, %H:%M}"


def exact(at: datetime) -> str:
    """Return a moment in full, with its zone."""
    local = at.astimezone(zone())
    return f"{local.day} {local:%B %Y, %H:%M:%S} {local:%Z}"


def iso(at: datetime) -> str:
    """Return a moment for machines: ISO 8601 in UTC."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds")


def label(state: str) -> str:
    """Return the word that a page has for a state."""
    return LABELS[State(state)]


def commands(text: str) -> Markup:
    """Return a sentence with what stands between backticks marked as something to type."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part
        for place, part in enumerate(parts)
    )


def size(octets: int) -> str:
    """Return a number of octets as a person reads it, its unit not parted from it."""
    amount = float(octets)
    for unit in ("B", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f}\u00a0{unit}"
        amount /= 1000
    return f"{amount:.1f}\u00a0GB"
