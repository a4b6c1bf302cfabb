"""A client of the API with a token, for the tests of its pages."""

from collections.abc import Iterable
from typing import Any

from flask.testing import FlaskClient
from sqlalchemy.orm import Session
from werkzeug.test import TestResponse

from dashboard.access.models import Source
from dashboard.access.permissions import Permission
from dashboard.access.tokens import make_token
from tests.factories import make_source

EMAIL = {
    "channel": "email",
    "to": "ada@example.com",
    "subject": "Your talk",
    "text": "Dear Ada",
}


class ApiClient:
    """Speaks to the API as one source."""

    def __init__(self, client: FlaskClient, session: Session, **options: Any) -> None:
        permissions: Iterable[Permission] = options.get("permissions", list(Permission))
        self.client = client
        self.source: Source = make_source(session, options.get("source", "programme-site"))
        self.token = make_token(session, self.source, "deploy", permissions)
        session.commit()

    def headers(self, given: dict[str, str] | None = None) -> dict[str, str]:
        """The token and what else is given."""
        return {"Authorization": f"Bearer {self.token}", **(given or {})}

    def post(
        self, path: str, body: object = None, *, headers: dict[str, str] | None = None, **rest: Any
    ) -> TestResponse:
        """Post JSON to a path below /api/v1."""
        if body is not None:
            rest["json"] = body
        return self.client.post(f"/api/v1{path}", headers=self.headers(headers), **rest)

    def get(self, path: str) -> TestResponse:
        """Get a path below /api/v1."""
        return self.client.get(f"/api/v1{path}", headers=self.headers())

    def send(self, **changes: Any) -> TestResponse:
        """Post an email that differs from the usual one in some fields."""
        return self.post("/dispatches", {**EMAIL, **changes})
