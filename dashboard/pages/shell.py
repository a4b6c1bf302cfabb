"""What surrounds every page: the rail, the environment, the sandbox line, what is wrong right now.

One statement and one look at Redis, which is shared by all requests of two seconds.
"""

from dataclasses import dataclass, field

from flask import current_app, request, url_for
from sqlalchemy import literal_column, select

from dashboard import clock
from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, current_access
from dashboard.database import db
from dashboard.dispatch.health import scheduler_now
from dashboard.dispatch.lists.search import COUNT_LIMIT, count_attention
from dashboard.dispatch.models import RoutePause
from dashboard.settings import Settings, current

# The pages of the rail: a page whose endpoint is not there is not shown.
PAGES = (
    ("Dispatches", "dispatches.index"),
    ("Reports", "reports.index"),
    ("Suppressions", "suppressions.index"),
    ("Sandbox", "sandbox.messages"),
)
SIGN_OUT = "sign_in.logout"
LOOK_SECONDS = 2.0
FRAME = "wireroom.frame"


@dataclass(frozen=True, slots=True)
class PageLink:
    """One line of the rail."""

    name: str
    url: str
    is_current: bool
    badge: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong everywhere; `state` lends its colour and its shape."""

    title: str
    text: str
    state: str = "errored"


@dataclass(frozen=True, slots=True)
class Frame:
    """What `layout/base.html` shows around a page."""

    environment: str
    who: str
    sign_out: str
    pages: list[PageLink]
    problems: list[Problem]
    sandbox: str
    sandbox_url: str
    search_hint: str
    attention: str


@dataclass(slots=True)
class _Look:
    """The last look at the scheduler, for all requests of this process."""

    at: float = float("-inf")
    problems: list[Problem] = field(default_factory=list)


_look = _Look()


def shell() -> Frame:
    """Return the frame of this request's page; made once for a request.

    Raises:
        SignInNeeded: when nobody is signed in.
    """
    # Not in `g`: an application context around several requests would keep the first one's.
    frame: Frame | None = request.environ.get(FRAME)
    if frame is None:
        frame = request.environ[FRAME] = _frame(current_access(), current())
    return frame


def _frame(access: Access, settings: Settings) -> Frame:
    rows = db.session.execute(_facts(access)).all()
    attention = _capped(rows[0].attention)
    paused = [
        Problem(f"{row.route} is paused.", f"{row.reason} Its messages wait; none is lost.")
        for row in rows
        if row.route is not None
    ]
    return Frame(
        environment=settings.environment.value,
        who=access.label,
        sign_out=_url(SIGN_OUT),
        pages=[_link(name, endpoint, attention) for name, endpoint in PAGES if _url(endpoint)],
        problems=[*paused, *_machinery(settings)],
        sandbox=_sandbox_line(settings),
        sandbox_url=_url("sandbox.messages"),
        search_hint=_search_hint(access),
        attention=attention,
    )


def _facts(access: Access):  # type: ignore[no-untyped-def]  # a row of labelled columns
    one = select(literal_column("1").label("one")).subquery()
    return (
        select(
            count_attention(access).scalar_subquery().label("attention"),
            RoutePause.route,
            RoutePause.reason,
        )
        .select_from(one)
        .outerjoin(RoutePause, RoutePause.resumed_at.is_(None))
        .order_by(RoutePause.route)
    )


def _capped(number: int) -> str:
    if number >= COUNT_LIMIT:
        return f"{COUNT_LIMIT}+"
    return str(number) if number else ""


def _url(endpoint: str) -> str:
    return url_for(endpoint) if endpoint in current_app.view_functions else ""


def _link(name: str, endpoint: str, attention: str) -> PageLink:
    return PageLink(
        name=name,
        url=url_for(endpoint),
        is_current=(request.endpoint or "").partition(".")[0] == endpoint.partition(".")[0],
        badge=attention if endpoint == "dispatches.index" else "",
    )


def _machinery(settings: Settings) -> list[Problem]:
    """Return what is wrong with Redis and the scheduler, looked at every two seconds at most."""
    if clock.monotonic() - _look.at > LOOK_SECONDS:
        state = scheduler_now(settings)
        title = "The scheduler is late." if state.redis_answers else "Redis is away."
        _look.problems = [Problem(title, text, "stalled") for text in state.problems]
        _look.at = clock.monotonic()
    return _look.problems


def _sandbox_line(settings: Settings) -> str:
    email, sms = settings.email_route == "sandbox", settings.sms_route == "sandbox"
    if email:
        what = "nothing leaves" if sms else "no email leaves"
        return f"Sandbox: {what} this machine. Set SMTP_URL to send real email."
    if sms:
        advice = "Set TWILIO_ACCOUNT_SID to send real ones."
        return f"Sandbox: no text message leaves this machine. {advice}"
    return ""


def _search_hint(access: Access) -> str:
    if access.allows(Permission.RECIPIENT_REVEAL):
        return "Address, number, id, subject"
    return "Whole address, whole number, id"
