"""A real browser on a real server: the system's Chromium, the application on a free port."""

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from flask import Flask
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from sqlalchemy.orm import Session, scoped_session
from werkzeug.serving import make_server

import dashboard.settings as current_settings
from dashboard.access import sessions
from dashboard.access.models import Grant, User
from dashboard.access.permissions import Role
from dashboard.app import create_app
from dashboard.database import db
from dashboard.pages.security import session_cookie
from dashboard.settings import Settings

ARGUMENTS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--no-first-run",
)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("No Chromium. Install it: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(params=["local"])
def assets(request: pytest.FixtureRequest) -> str:
    """Where htmx comes from; tests about the CDN ask for it."""
    return str(request.param)


@pytest.fixture
def site(app: Flask, settings: Settings, assets: str) -> Iterator[str]:
    """The address of a running application on the test's database."""
    own = settings.model_copy(update={"assets": assets})
    served = create_app(own)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, served, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()
    with served.app_context():
        db.engine.dispose()
    current_settings.use(settings)


@dataclass
class Visitor:
    """Somebody at a browser; `complaints` is what the browser said about the pages."""

    page: Page
    site: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        """Go to a page of the site."""
        self.page.goto(self.site + path)
        return self.page


Invite = Callable[..., Visitor]


@pytest.fixture
def visit(
    app: Flask, session: scoped_session[Session], chromium: Browser, site: str
) -> Iterator[Invite]:
    """Returns a function that signs somebody in; no page may have made the browser complain."""
    opened: list[tuple[BrowserContext, Visitor]] = []

    def invite(
        email: str = "operator@example.com", *, width: int = 1360, **options: Any
    ) -> Visitor:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            timezone_id="Europe/Vienna",
            base_url=site,
            **options,
        )
        cookie = _sign_in(session, email)
        context.add_cookies([{"name": session_cookie(app), "value": cookie, "url": site}])
        visitor = Visitor(context.new_page(), site)
        visitor.page.on("console", lambda message: _note(visitor, message))
        visitor.page.on("pageerror", lambda error: visitor.complaints.append(str(error)))
        opened.append((context, visitor))
        return visitor

    yield invite
    complaints = [complaint for _, visitor in opened for complaint in visitor.complaints]
    for context, _ in opened:
        context.close()
    assert complaints == []


def _note(visitor: Visitor, message: Any) -> None:
    if message.type in ("error", "warning"):
        visitor.complaints.append(f"{message.type}: {message.text}")


def _sign_in(session: scoped_session[Session], email: str) -> str:
    user = User(email=email)
    session.add(user)
    session.flush()
    session.add(Grant(user_id=user.id, role=Role.OPERATOR))
    cookie = sessions.start(session, user, sessions.Browser())
    session.commit()
    return cookie
