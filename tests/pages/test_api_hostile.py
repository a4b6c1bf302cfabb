"""Hostile text over HTTP: refused with the field named, or kept and given back as it was."""

import http.client
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session, scoped_session
from werkzeug.serving import make_server

from dashboard.dispatch.models import Dispatch, EmailContent, Idempotency
from tests.pages.api_client import EMAIL, ApiClient

HOSTILE = [
    '"><img src=x onerror=alert(1)>',
    "</script><svg onload=alert(1)>",
    "{{7*7}} %s %(x)s ${x}",
    "\u200f\u05e9\u05dc\u05d5\u05dd\u200e \u202egnp.exe",
    "'; DROP TABLE dispatch; --",
    "🏳️ e\u0301 \ufeff\uffff",
]
BROKEN = [r"a\u0000b", r"\ud800", r"\udc00x"]


@pytest.fixture
def api(client: FlaskClient, session: scoped_session[Session]) -> ApiClient:
    return ApiClient(client, session())


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_hostile_text_is_stored_as_it_is_and_given_back(
    api: ApiClient, session: scoped_session[Session], text: str
) -> None:
    sent = api.send(
        subject=text,
        text=text,
        html=text,
        labels={text: text},
        target={"type": text, "id": text},
        headers={"X-Note": text},
    )
    assert sent.status_code == 202, sent.json
    shown = api.get(f"/dispatches/{sent.json['id']}").json
    assert shown["subject"] == text
    assert shown["target"] == {"type": text, "id": text}
    assert shown["labels"] == {text: text}
    content = session.scalars(select(EmailContent)).one()
    assert (content.text, content.html, content.headers) == (text, text, {"X-Note": text})


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize(
    ("template", "field"),
    [
        ('{"subject": "%s"}', "subject"),
        ('{"text": "%s"}', "text"),
        ('{"html": "%s"}', "html"),
        ('{"to": "%s"}', "to"),
        ('{"to": ["%s"]}', "to[0]"),
        ('{"from": "%s <a@example.com>"}', "from"),
        ('{"labels": {"a": "%s"}}', "labels.a"),
        ('{"labels": {"%s": "a"}}', "labels"),
        ('{"target": {"type": "x", "id": "%s"}}', "target.id"),
        ('{"headers": {"X-Y": "%s"}}', "headers.X-Y"),
        ('{"attachments": [{"filename": "%s", "content": "YQ=="}]}', "attachments[0].filename"),
        ('{"attachments": [{"filename": "a", "content": "%s"}]}', "attachments[0].content"),
        ('{"kind": "%s"}', "kind"),
        ('{"%s": "a"}', "body"),
    ],
)
def test_text_that_cannot_be_stored_is_refused_with_the_field_named(
    api: ApiClient, session: scoped_session[Session], template: str, field: str, text: str
) -> None:
    usual = json.dumps({key: value for key, value in EMAIL.items() if f'"{key}"' not in template})
    body = usual[:-1] + ", " + (template % text)[1:]
    answer = api.post("/dispatches", data=body, content_type="application/json")

    assert answer.status_code == 400
    assert [one["field"] for one in answer.json["errors"]] == [field]
    assert session.scalars(select(Dispatch)).all() == []


def test_a_message_of_five_megabytes_is_refused_with_the_field_named(api: ApiClient) -> None:
    answer = api.send(text="x" * (5 * 1024 * 1024 + 1))

    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == "text"
    assert "x" * 100 not in answer.get_data(as_text=True)


def test_four_megabytes_of_text_are_accepted(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    text = "é" * (2 * 1024 * 1024)

    assert api.send(text=text).status_code == 202
    assert session.scalars(select(EmailContent.text)).one() == text


@pytest.mark.parametrize("depth", [30, 900, 100_000])
def test_deep_nesting_is_refused(api: ApiClient, depth: int) -> None:
    body = '{"labels":' * depth + "1" + "}" * depth
    answer = api.post("/dispatches", data=body, content_type="application/json")

    assert answer.status_code == 400


def test_a_key_in_another_script_is_kept_as_it_was_meant(
    app: Flask, api: ApiClient, session: scoped_session[Session]
) -> None:
    server = make_server("127.0.0.1", 0, app)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    headers: dict[str, Any] = api.headers({"Content-Type": "application/json"})
    connection.request(
        "POST",
        "/api/v1/dispatches",
        json.dumps(EMAIL),
        {**headers, "Idempotency-Key": "ключ Ю".encode()},
    )
    status = connection.getresponse().status
    connection.close()
    thread.join()
    server.server_close()

    assert status == 202
    assert session.scalars(select(Idempotency.key)).one() == "ключ Ю"


def test_a_full_disk_is_told_and_nothing_is_accepted(
    api: ApiClient, session: scoped_session[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    file = {"filename": "a.pdf", "content": "YQ=="}
    headers = {"Idempotency-Key": "again"}
    refused = api.post("/dispatches", {**EMAIL, "attachments": [file]}, headers=headers)

    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "30"
    assert session.scalars(select(Dispatch)).all() == []
    monkeypatch.undo()
    accepted = api.post("/dispatches", {**EMAIL, "attachments": [file]}, headers=headers)
    assert accepted.status_code == 202
