"""Fifty posts at the same moment, over a real socket: one key, one message."""

import http.client
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from rq import Queue as RQQueue
from sqlalchemy import select
from sqlalchemy.orm import Session, scoped_session
from werkzeug.serving import make_server

import dashboard.settings as current_settings
from dashboard.dispatch.models import Dispatch, EmailContent, Idempotency, Transition
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings
from tests.pages.api_client import EMAIL, ApiClient

AT_ONCE = 50


@pytest.fixture
def api(client: FlaskClient, session: scoped_session[Session]) -> ApiClient:
    return ApiClient(client, session())


@pytest.fixture
def port(app: Flask) -> Iterator[int]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def post_at_once(port: int, api: ApiClient, keys: list[str]) -> list[tuple[str, int, str, str]]:
    """Post one email for each key, all at the same moment; return key, status, id, replayed."""
    answers: list[tuple[str, int, str, str]] = []
    barrier = threading.Barrier(len(keys))

    def post(key: str) -> None:
        headers = api.headers({"Idempotency-Key": key, "Content-Type": "application/json"})
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.connect()
        barrier.wait(30)
        connection.request("POST", "/api/v1/dispatches", json.dumps(EMAIL), headers)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        replayed = answer.headers.get("Idempotent-Replayed", "")
        answers.append((key, answer.status, body.get("id", ""), replayed))
        connection.close()

    threads = [threading.Thread(target=post, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


def test_fifty_posts_with_one_key_make_one_message(
    port: int, api: ApiClient, session: scoped_session[Session], settings: Settings
) -> None:
    answers = post_at_once(port, api, ["the-key"] * AT_ONCE)

    assert Counter(status for _, status, _, _ in answers) == {202: AT_ONCE}
    (dispatch_id,) = {dispatch_id for _, _, dispatch_id, _ in answers}
    assert Counter(replayed for *_, replayed in answers) == {"true": AT_ONCE - 1, "": 1}
    assert [str(row.id) for row in session.scalars(select(Dispatch))] == [dispatch_id]
    for model in (EmailContent, Transition, Idempotency):
        assert len(session.scalars(select(model)).all()) == 1
    (job,) = RQQueue("default", connection=redis_connection(settings)).jobs
    assert job.args == ([dispatch_id],)


def test_fifty_posts_with_ten_keys_make_ten_messages(
    port: int, api: ApiClient, session: scoped_session[Session]
) -> None:
    answers = post_at_once(port, api, [f"key-{number % 10}" for number in range(AT_ONCE)])

    assert {status for _, status, _, _ in answers} == {202}
    assert len({(key, dispatch_id) for key, _, dispatch_id, _ in answers}) == 10
    assert len(session.scalars(select(Dispatch)).all()) == 10


def test_a_redis_that_hangs_costs_a_batch_of_all_priorities_less_than_two_seconds(
    api: ApiClient, settings: Settings
) -> None:
    messages = [{**EMAIL, "priority": priority} for priority in ("high", "normal", "bulk")]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        current_settings.use(settings.model_copy(update={"redis_url": url}))
        try:
            started = time.monotonic()
            answer = api.post("/dispatches/batch", {"messages": messages})
            took = time.monotonic() - started
        finally:
            current_settings.use(settings)

    assert answer.status_code == 202
    assert [one["state"] for one in answer.json["results"]] == ["queued"] * 3
    assert took < 2
