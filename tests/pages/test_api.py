"""The HTTP API: what is accepted, what is answered, what is refused and how it is said."""

import json
import uuid

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as current_settings
from dashboard.access.permissions import Permission
from dashboard.dispatch.models import Dispatch, EmailContent
from dashboard.dispatch.states import State
from dashboard.queueing.publish import waiting_jobs
from dashboard.settings import Environment, Settings
from tests.factories import make_attempt, make_dispatch
from tests.pages.api_client import EMAIL, ApiClient


@pytest.fixture
def api(client: FlaskClient, session: scoped_session[Session]) -> ApiClient:
    return ApiClient(client, session())


def count(session: scoped_session[Session]) -> int:
    return session.scalar(select(func.count()).select_from(Dispatch))


def test_an_accepted_message_is_stored_queued_and_published(
    api: ApiClient, session: scoped_session[Session], settings: Settings
) -> None:
    answer = api.send(target={"type": "invitation", "id": "482"}, labels={"conference": "pycon"})
    assert answer.status_code == 202
    assert answer.json["state"] == "queued"
    assert answer.json["copies"] == []
    assert answer.headers["Location"] == answer.json["url"]
    row = session.get(Dispatch, uuid.UUID(answer.json["id"]))
    assert (row.state, row.recipient, row.target_id) == (State.QUEUED, "ada@example.com", "482")
    assert row.requested_by == "token:programme-site/deploy"
    assert waiting_jobs("default", settings) == 1


def test_what_was_accepted_can_be_asked_for_with_its_whole_story(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    accepted = api.send(
        target={"type": "invitation", "id": "482"},
        attachments=[{"filename": "отчёт Q4.pdf", "content": "JVBERg==", "content_type": "a/b"}],
    )
    row = session.get(Dispatch, uuid.UUID(accepted.json["id"]))
    make_attempt(session(), row, provider_message_id="pm-1")
    session.commit()
    found = api.get(accepted.json["url"].removeprefix("/api/v1"))
    assert found.status_code == 200
    told = found.json
    wanted = {
        *("id", "state", "channel", "kind", "recipient", "provider", "provider_message_id"),
        *("attempts", "error", "failure", "due_at", "replaces", "replaced_by", "target"),
        *("labels", "attachments", "timeline"),
    }
    assert wanted <= set(told)
    assert told["recipient"] == "ada@example.com"
    assert told["attachments"][0]["filename"] == "отчёт Q4.pdf"
    assert [one["what"] for one in told["timeline"]] == ["transition", "attempt"]
    assert told["timeline"][1]["provider_message_id"] == "pm-1"
    assert "Dear Ada" not in found.text


def test_a_token_without_reveal_sees_the_recipient_masked(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    reader = ApiClient(
        client, session(), permissions=[Permission.DISPATCH_LIST, Permission.DISPATCH_READ]
    )
    row = make_dispatch(session(), source=reader.source)
    session.commit()
    assert reader.get(f"/dispatches/{row.id}").json["recipient"] == "a…@example.com"


def test_each_of_cc_and_bcc_becomes_a_copy(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    answer = api.send(cc=["grace@example.com"], bcc=["joan@example.com"])
    assert len(answer.json["copies"]) == 2
    rows = session.scalars(select(Dispatch).order_by(Dispatch.id)).all()
    first = uuid.UUID(answer.json["id"])
    assert [row.copy_of_id for row in rows] == [None, first, first]
    contents = session.scalars(select(EmailContent)).all()
    assert {(tuple(one.to), tuple(one.cc)) for one in contents} == {
        (("ada@example.com",), ("grace@example.com",))
    }
    assert api.get(f"/dispatches/{first}").json["copies"] == answer.json["copies"]


def test_a_wrong_field_is_named_in_a_problem(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    answer = api.send(to="not-an-address", subject="a\r\nBcc: x@example.com", colour="red")
    assert answer.status_code == 400
    assert answer.content_type == "application/problem+json"
    assert {one["field"] for one in answer.json["errors"]} == {"to", "subject", "colour"}
    assert count(session) == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b"{", "body"),
        (b'{"channel": NaN}', "body"),
        (b'{"a": 1e400}', "a"),
        (b"\xff\xfe", "body"),
        (b"[" * 100_000, "body"),
        (b'{"channel": "email", "subject": "hi\\u0000"}', "subject"),
        (b'{"channel": "email", "subject": "hi\\ud800"}', "subject"),
        (b'{"channel": "pigeon"}', "channel"),
    ],
)
def test_a_body_that_is_no_message_is_refused_with_400(
    api: ApiClient, body: bytes, field: str
) -> None:
    answer = api.post("/dispatches", data=body, content_type="application/json")
    assert answer.status_code == 400
    assert [one["field"] for one in answer.json["errors"]] == [field]


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_another_content_type_is_refused_with_415(api: ApiClient, content_type: str) -> None:
    answer = api.post("/dispatches", data=json.dumps(EMAIL), content_type=content_type)
    assert answer.status_code == 415
    assert answer.content_type == "application/problem+json"


def test_a_body_that_is_too_large_is_refused_with_413(
    api: ApiClient, session: scoped_session[Session], settings: Settings
) -> None:
    current_settings.use(settings.model_copy(update={"attachment_max_bytes": 1000}))
    try:
        answer = api.post(
            "/dispatches", data=b" " * (16 * 1024 * 1024), content_type="application/json"
        )
    finally:
        current_settings.use(settings)
    assert answer.status_code == 413
    assert answer.content_type == "application/problem+json"
    assert count(session) == 0


def test_a_dry_run_says_what_would_happen_and_changes_nothing(
    api: ApiClient, session: scoped_session[Session], settings: Settings
) -> None:
    sms = {"channel": "sms", "to": "+12025550143", "body": "a" * 161, "priority": "high"}
    answer = api.post("/dispatches", sms, headers={"Dry-Run": "true"})
    assert answer.status_code == 200
    assert (answer.json["segments"], answer.json["queue"]) == (2, "high")
    assert (
        api.post("/dispatches", {**sms, "to": "0"}, headers={"Dry-Run": "true"}).status_code == 400
    )
    assert count(session) == 0
    assert waiting_jobs("high", settings) == 0


def test_a_dry_run_that_cannot_be_understood_does_nothing(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    assert api.post("/dispatches", EMAIL, headers={"Dry-Run": "yes"}).status_code == 400
    assert count(session) == 0


def test_each_message_of_a_batch_is_judged_alone(
    api: ApiClient, session: scoped_session[Session], settings: Settings
) -> None:
    messages = [EMAIL, {**EMAIL, "to": "nobody"}, "text", {**EMAIL, "to": "grace@example.com"}]
    answer = api.post("/dispatches/batch", {"messages": messages})
    assert answer.status_code == 202
    results = answer.json["results"]
    assert ["id" in one for one in results] == [True, False, False, True]
    assert results[1]["error"]["errors"][0]["field"] == "to"
    assert count(session) == 2
    assert waiting_jobs("default", settings) == 1


def test_a_batch_sent_twice_under_one_key_makes_each_message_once(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    body = {"messages": [EMAIL, {**EMAIL, "to": "grace@example.com"}]}
    first = api.post("/dispatches/batch", body, headers={"Idempotency-Key": "k"})
    again = api.post("/dispatches/batch", body, headers={"Idempotency-Key": "k"})
    assert again.json == first.json
    assert count(session) == 2


@pytest.mark.parametrize("count_of_messages", [0, 1001])
def test_a_batch_has_one_to_a_thousand_messages(api: ApiClient, count_of_messages: int) -> None:
    answer = api.post("/dispatches/batch", {"messages": [EMAIL] * count_of_messages})
    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == "messages"


def test_a_dispatch_of_another_source_is_not_there(
    api: ApiClient, client: FlaskClient, session: scoped_session[Session]
) -> None:
    stranger = ApiClient(client, session(), source="ticket-shop")
    sent = api.send()
    place = f"/dispatches/{sent.json['id']}"
    assert stranger.get(place).status_code == 404
    assert stranger.post(f"{place}/cancel").status_code == 404
    assert stranger.get(f"/dispatches/{uuid.uuid4()}").status_code == 404


def test_without_a_valid_token_nothing_is_done(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    for header in ({}, {"Authorization": "Bearer wr_wrong"}, {"Authorization": "Basic eDp5"}):
        answer = client.post("/api/v1/dispatches", json=EMAIL, headers=header)
        assert answer.status_code == 401
        assert answer.content_type == "application/problem+json"
        assert "WWW-Authenticate" in answer.headers
    assert count(session) == 0


def test_a_token_without_the_permission_is_refused(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    reader = ApiClient(
        client, session(), permissions=[Permission.DISPATCH_LIST, Permission.DISPATCH_READ]
    )
    answer = reader.send()
    assert answer.status_code == 403
    assert "dispatch:create" in answer.json["detail"]


def test_the_sandbox_is_listed_in_development_only(api: ApiClient, settings: Settings) -> None:
    assert api.get("/sandbox/messages").json == {"messages": []}
    current_settings.use(settings.model_copy(update={"environment": Environment.STAGING}))
    try:
        assert api.get("/sandbox/messages").status_code == 404
    finally:
        current_settings.use(settings)


def test_every_route_is_described(app: Flask, client: FlaskClient) -> None:
    described = client.get("/api/v1/openapi.json").json
    assert described["openapi"] == "3.1.0"
    operations = {
        (f"/api/v1{path}".replace("{dispatch_id}", "<uuid:dispatch_id>"), method.upper())
        for path, methods in described["paths"].items()
        for method in methods
        if method in ("get", "post", "patch", "delete")
    }
    routes = {
        (rule.rule, method)
        for rule in app.url_map.iter_rules()
        if rule.endpoint.startswith("api.")
        for method in rule.methods - {"HEAD", "OPTIONS"}
    }
    assert operations == routes
    named = set(json.dumps(described).split('"#/components/schemas/')[1:])
    assert {one.partition('"')[0] for one in named} == set(described["components"]["schemas"])
