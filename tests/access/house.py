"""The application with two rooms of its own behind the doors, and visitors who knock."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flask import Blueprint, Flask
from flask.testing import FlaskClient
from flask_wtf.csrf import generate_csrf
from sqlalchemy import event
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from dashboard.access.models import Grant, User
from dashboard.access.passwords import hash_password
from dashboard.access.permissions import Permission, Role
from dashboard.access.requires import public, requires
from dashboard.access.scope import current_access
from dashboard.app import create_app
from dashboard.database import db
from dashboard.settings import Settings

PASSWORD = "correct horse battery"
# Made once: each takes some 50 ms.
HASH = hash_password(PASSWORD)

rooms = Blueprint("rooms", __name__)


@rooms.get("/room")
@requires(Permission.DISPATCH_LIST)
def room() -> str:
    return current_access().actor


@rooms.post("/room/act")
@requires(Permission.DISPATCH_RETRY)
def act() -> str:
    return "done"


def build(settings: Settings) -> Flask:
    """The application, whole, with the rooms."""
    app = create_app(settings)
    app.config.update(TESTING=True)
    app.register_blueprint(rooms)
    return app


def add_user(
    session: Session, email: str = "ada@example.com", role: Role | None = Role.OPERATOR
) -> User:
    """A user with PASSWORD and a role everywhere, committed."""
    user = User(email=email, password_hash=HASH)
    session.add(user)
    session.flush()
    if role:
        session.add(Grant(user_id=user.id, role=role))
    session.commit()
    return user


def token_of(page: TestResponse) -> str:
    """The CSRF token of the first form of a page."""
    found = re.search(r'name="csrf_token" value="([^"]+)"', page.text)
    assert found, page.text
    return found[1]


def post(
    client: FlaskClient, url: str, data: dict[str, Any] | None = None, **options: Any
) -> TestResponse:
    """Post a form with the token that a page of this browser has."""
    token = token_of(client.get("/token-page"))
    return client.post(url, data={"csrf_token": token, **(data or {})}, **options)


@rooms.get("/token-page")
@public("a test asks for a token")
def token_page() -> str:
    return f'<input name="csrf_token" value="{generate_csrf()}">'


def knock(
    client: FlaskClient,
    password: str = PASSWORD,
    *,
    email: str = "ada@example.com",
    address: str = "192.0.2.1",
    headers: dict[str, str] | None = None,
    next_page: str = "",
) -> TestResponse:
    """Try to sign in from an address."""
    return post(
        client,
        "/login",
        {"email": email, "password": password, "next": next_page},
        environ_base={"REMOTE_ADDR": address},
        headers=headers,
    )


@contextmanager
def statements(app: Flask) -> Iterator[list[str]]:
    """Collect the statements that the application's engine runs."""
    seen: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement)

    with app.app_context():
        engine = db.engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)
