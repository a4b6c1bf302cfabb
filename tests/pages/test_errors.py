"""What is answered when something went wrong."""

import re
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from psycopg.errors import LockNotAvailable
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import Session, scoped_session
from werkzeug.exceptions import NotFound, TooManyRequests

from dashboard.access.permissions import Role
from dashboard.access.requires import public
from dashboard.access.scope import NotAllowed, OutOfScope
from dashboard.app import create_app
from dashboard.dispatch.actions.press import ActionRefused
from dashboard.pages.errors import trouble_of
from dashboard.settings import Settings, use
from tests.factories import make_dispatch
from tests.pages.desk import sign_in

Db = scoped_session[Session]


@pytest.fixture
def nowhere(settings: Settings, app: Flask) -> Iterator[FlaskClient]:
    """A browser at an installation whose database does not answer."""
    away = settings.model_copy(
        update={"database_url": "postgresql+psycopg://nobody@127.0.0.1:1/none"}
    )
    yield create_app(away).test_client()
    use(settings)


def test_an_unknown_address_is_a_page(client: FlaskClient) -> None:
    answer = client.get("/no-such-page")
    assert answer.status_code == 404
    assert "There is nothing here." in answer.text
    assert "<h1>" in answer.text


def test_the_api_answers_with_a_problem(client: FlaskClient) -> None:
    answer = client.get("/api/v1/no-such-thing")
    assert answer.status_code == 404
    assert answer.content_type == "application/problem+json"
    assert answer.json is not None
    assert answer.json["status"] == 404


def test_htmx_gets_a_notice_that_leaves_the_page_as_it_is(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    answer = desk.get("/no-such-page", htmx=True)
    assert answer.status_code == 404
    assert answer.headers["HX-Retarget"] == "#notices"
    assert answer.headers["HX-Reswap"] == "innerHTML"
    assert answer.text.lstrip().startswith('<p class="notice bad" id="errors-notice"')


def test_a_button_address_that_is_opened_says_where_the_button_is(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    answer = desk.get("/dispatches/search")
    assert answer.status_code == 405
    assert "pressing a button" in answer.text
    assert "POST" in answer.headers["Allow"]


def test_a_dispatch_of_another_source_is_not_there(app: Flask, session: Db) -> None:
    row = make_dispatch(session)
    other = sign_in(app, session, Role.OPERATOR, source=None, email="a@example.com")
    assert other.get(f"/dispatches/{row.id}").status_code == 200
    missing = other.get("/dispatches/01a22f97-8c36-7440-aa65-748ea32b46ba")
    assert missing.status_code == 404
    assert "not yours to see" in missing.text


def test_without_the_database_the_page_says_what_is_wrong(nowhere: FlaskClient) -> None:
    answer = nowhere.get("/dispatches", headers={"Cookie": "wireroom_session=x"})
    assert answer.status_code == 503
    assert "The database does not answer." in answer.text
    assert answer.headers["Retry-After"] == "15"
    assert answer.headers["Refresh"] == "15"
    for leak in ("Traceback", "psycopg", "127.0.0.1:1", "nobody@"):
        assert leak not in answer.text


def test_without_the_database_the_api_says_so_as_a_problem(nowhere: FlaskClient) -> None:
    answer = nowhere.get("/api/v1/dispatches", headers={"Authorization": "Bearer wr_x"})
    assert answer.status_code == 503
    assert answer.content_type == "application/problem+json"
    assert "database" in answer.text


def test_a_bug_shows_a_number_that_the_log_has_and_nothing_else(
    settings: Settings, app: Flask, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = create_app(settings)

    @broken.get("/broken")
    @public("a page of this test")
    def fail() -> str:
        raise RuntimeError("secret-of-the-bug")

    answer = broken.test_client().get("/broken")
    assert answer.status_code == 500
    assert "secret-of-the-bug" not in answer.text
    assert "Traceback" not in answer.text
    number = re.search(r"<code>(\w{8})</code>", answer.text)
    assert number
    logged = capsys.readouterr().out
    assert f"error_number={number[1]}" in logged
    assert "secret-of-the-bug" in logged


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (NotAllowed("You need the permission bulk:run."), 403, "bulk:run"),
        (OutOfScope(), 404, "nothing here"),
        (ActionRefused("Already resent by bo@example.com."), 409, "Already resent by bo"),
        (NotFound(), 404, "nothing here"),
        (TooManyRequests(), 429, "too often"),
        (OperationalError("SELECT 1", {}, Exception("gone")), 503, "does not answer"),
        (DBAPIError("SELECT 1", {}, LockNotAvailable("lock")), 503, "too busy"),
        (KeyError("x"), 500, "failed on this page"),
    ],
)
def test_each_error_has_words(error: Exception, status: int, words: str) -> None:
    trouble = trouble_of(error)
    assert trouble.status == status
    assert words in trouble.sentence
