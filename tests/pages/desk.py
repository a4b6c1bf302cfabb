"""A signed-in browser without a screen: what the tests of pages press and read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event
from sqlalchemy.orm import Session, scoped_session
from werkzeug.test import TestResponse

from dashboard.access import sessions
from dashboard.access.models import Grant, Source, User
from dashboard.access.permissions import Role
from dashboard.database import db
from dashboard.pages.security import session_cookie


def sign_in(
    app: Flask,
    session: scoped_session[Session],
    role: Role = Role.OPERATOR,
    *,
    source: Source | None = None,
    email: str = "operator@example.com",
) -> "Desk":
    """A browser of a person who has this role, everywhere or on one source. Commits."""
    user = User(email=email)
    session.add(user)
    session.flush()
    session.add(Grant(user_id=user.id, role=role, source_id=source.id if source else None))
    cookie = sessions.start(session, user, sessions.Browser())  # type: ignore[arg-type]
    session.commit()
    client = app.test_client()
    client.set_cookie(session_cookie(app), cookie)
    return Desk(client)


class Desk:
    """A browser: it follows forms as they stand on the page, with their hidden fields."""

    def __init__(self, client: FlaskClient) -> None:
        self.client = client

    def get(self, path: str, *, htmx: bool = False) -> TestResponse:
        return self.client.get(path, headers={"HX-Request": "true"} if htmx else {})

    def text(self, path: str) -> str:
        """The page as a reader hears it: no tags, one space between words."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text[:500]
        return words(answer.text)

    def fields(self, page: str, action: str) -> dict[str, str]:
        """The hidden fields of the form that posts to this address."""
        html = self.get(page).text
        form = re.search(rf'<form[^>]*action="{re.escape(action)}".*?</form>', html, re.S)
        assert form, f"no form for {action} on {page}"
        pairs = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form[0])
        return {name: unescape(value) for name, value in pairs}

    def press(self, page: str, action: str, *, htmx: bool = False, **more: str) -> TestResponse:
        """Press the button of a form on a page."""
        fields = {**self.fields(page, action), **more}
        return self.client.post(action, data=fields, headers={"HX-Request": "true"} if htmx else {})

    def search(self, text: str) -> TestResponse:
        """Type into the search box and follow."""
        fields = self.fields("/dispatches", "/dispatches/search")
        return self.client.post("/dispatches/search", data={**fields, "q": text})


def words(html: str) -> str:
    """HTML as a reader hears it."""
    html = re.sub(r"<(script|style|head)\b.*?</\1>", " ", html, flags=re.S)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).replace("\u00a0", " ").split())


@contextmanager
def counted() -> Iterator[list[str]]:
    """Collects the SQL statements that are sent inside."""
    sent: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        sent.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(db.engine, "before_cursor_execute", note)
