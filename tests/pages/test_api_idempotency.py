"""Idempotency keys of the API, its statement budget, and a Redis that does not answer."""

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as current_settings
from dashboard.database import db
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Failure, State
from dashboard.settings import Settings
from tests.pages.api_client import EMAIL, ApiClient


@pytest.fixture
def api(client: FlaskClient, session: scoped_session[Session]) -> ApiClient:
    return ApiClient(client, session())


def rows(session: scoped_session[Session]) -> int:
    return session.scalar(select(func.count()).select_from(Dispatch))


def test_the_same_key_and_body_get_the_first_answer_again(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    body = {**EMAIL, "cc": ["grace@example.com"]}
    first = api.post("/dispatches", body, headers={"Idempotency-Key": "a"})
    turned = dict(reversed(body.items()))
    again = api.post("/dispatches", turned, headers={"Idempotency-Key": "a"})
    assert (again.status_code, again.json) == (202, first.json)
    assert again.headers["Location"] == first.headers["Location"]
    assert again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert rows(session) == 2


def test_the_same_key_with_another_body_is_a_conflict(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    first = api.post("/dispatches", EMAIL, headers={"Idempotency-Key": "a"})
    other = {**EMAIL, "subject": "Another talk"}
    answer = api.post("/dispatches", other, headers={"Idempotency-Key": "a"})
    assert answer.status_code == 409
    assert answer.content_type == "application/problem+json"
    assert first.json["id"] in answer.json["detail"]
    assert rows(session) == 1


def test_keys_differ_by_case_and_by_source(
    api: ApiClient, client: FlaskClient, session: scoped_session[Session]
) -> None:
    other = ApiClient(client, session(), source="ticket-shop")
    for caller, key in ((api, "Key"), (api, "key"), (other, "key")):
        answer = caller.post("/dispatches", EMAIL, headers={"Idempotency-Key": key})
        assert "Idempotent-Replayed" not in answer.headers
    assert rows(session) == 3


@pytest.mark.parametrize("key", ["", "   ", "k" * 256, "k" * 10_000])
def test_a_key_that_is_none_is_refused(
    api: ApiClient, session: scoped_session[Session], key: str
) -> None:
    answer = api.post("/dispatches", EMAIL, headers={"Idempotency-Key": key})
    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == "Idempotency-Key"
    assert rows(session) == 0


@pytest.mark.parametrize("key", ["k" * 255, "clé-ü"])
def test_an_unusual_key_is_a_key(
    api: ApiClient, session: scoped_session[Session], key: str
) -> None:
    for _ in range(2):
        answer = api.post("/dispatches", EMAIL, headers={"Idempotency-Key": key})
        assert answer.status_code == 202
    assert rows(session) == 1


def test_fifty_at_once_under_one_key_make_one_message(
    api: ApiClient, app: Flask, session: scoped_session[Session]
) -> None:
    answers = []
    barrier = threading.Barrier(10)

    def post() -> None:
        client = app.test_client()
        barrier.wait(10)
        for _ in range(5):
            answer = client.post(
                "/api/v1/dispatches", json=EMAIL, headers=api.headers({"Idempotency-Key": "one"})
            )
            answers.append((answer.status_code, (answer.json or {}).get("id")))

    threads = [threading.Thread(target=post) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(answers) == 50
    assert {status for status, _ in answers} == {202}
    assert len({one for _, one in answers}) == 1
    assert rows(session) == 1


@contextmanager
def statements() -> Iterator[list[str]]:
    """Collect what the application asks of the database."""
    seen: list[str] = []

    def note(*arguments: object) -> None:
        seen.append(str(arguments[2]))

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(db.engine, "before_cursor_execute", note)


def test_accepting_one_with_a_key_takes_five_statements_with_the_token(api: ApiClient) -> None:
    api.send()  # notes that the token was used, at most once a minute
    with statements() as seen:
        answer = api.post("/dispatches", EMAIL, headers={"Idempotency-Key": "a"})
    assert answer.status_code == 202
    assert len(seen) <= 5, seen


def test_attachments_cost_two_statements_at_most(api: ApiClient) -> None:
    api.send()
    files = [{"filename": f"{number}.txt", "content": "eA=="} for number in range(3)]
    with statements() as seen:
        answer = api.send(attachments=files)
    assert answer.status_code == 202
    assert len(seen) <= 6, seen


def test_a_redis_that_refuses_costs_no_request(
    api: ApiClient, session: scoped_session[Session], settings: Settings
) -> None:
    current_settings.use(settings.model_copy(update={"redis_url": "redis://127.0.0.1:1/0"}))
    try:
        began = time.monotonic()
        answer = api.send()
        took = time.monotonic() - began
    finally:
        current_settings.use(settings)
    assert answer.status_code == 202
    assert took < 2
    row = session.get(Dispatch, uuid.UUID(answer.json["id"]), populate_existing=True)
    assert (row.state, row.failure) == (State.ERRORED, Failure.PUBLISH)
