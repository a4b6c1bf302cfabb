"""The API's actions, their dry runs, and files that are stored to be named later."""

import base64
import hashlib
import uuid

import pytest
from flask.testing import FlaskClient
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session, scoped_session

from dashboard.dispatch.files.carried import files_of
from dashboard.dispatch.files.models import Attachment
from dashboard.dispatch.models import Dispatch, EmailContent
from dashboard.dispatch.states import State
from dashboard.settings import Settings
from tests.factories import make_dispatch
from tests.pages.api_client import ApiClient

DRY = {"Dry-Run": "true"}


@pytest.fixture
def api(client: FlaskClient, session: scoped_session[Session]) -> ApiClient:
    return ApiClient(client, session())


def test_cancel_retry_and_resend_move_a_dispatch(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    sent = api.send()
    place = f"/dispatches/{sent.json['id']}"
    assert api.post(f"{place}/cancel", {"reason": "wrong template"}).json["state"] == "cancelled"
    refused = api.post(f"{place}/retry")
    assert refused.status_code == 409
    assert refused.content_type == "application/problem+json"
    resent = api.post(f"{place}/resend")
    assert resent.status_code == 202
    assert resent.json["replaces"] == sent.json["id"]
    again = api.post(f"{place}/resend")
    assert again.status_code == 409
    assert resent.json["id"] in again.json["detail"]
    failed = make_dispatch(session(), source=api.source, state=State.ERRORED)
    session.commit()
    assert api.post(f"/dispatches/{failed.id}/retry").json["state"] == "queued"


def test_what_may_have_arrived_needs_a_confirmation(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    row = make_dispatch(session(), source=api.source, state=State.SUCCEEDED)
    session.commit()
    assert api.post(f"/dispatches/{row.id}/resend").status_code == 409
    assert api.post(f"/dispatches/{row.id}/resend", {"confirm": "yes"}).status_code == 400
    assert api.post(f"/dispatches/{row.id}/resend", {"confirm": True}).status_code == 202


@pytest.mark.parametrize("action", ["retry", "cancel", "resend"])
def test_actions_are_not_done_by_get(api: ApiClient, action: str) -> None:
    answer = api.get(f"/dispatches/{uuid.uuid4()}/{action}")
    assert answer.status_code == 405


def test_an_action_asked_for_as_a_dry_run_says_what_it_would_do_and_does_nothing(
    api: ApiClient, session: scoped_session[Session]
) -> None:
    place = f"/dispatches/{api.send().json['id']}"
    failed = make_dispatch(session(), source=api.source, state=State.ERRORED)
    session.commit()
    answers = [
        api.post(f"{place}/cancel", headers=DRY),
        api.post(f"{place}/resend", headers=DRY),
        api.post(f"/dispatches/{failed.id}/retry", headers=DRY),
    ]
    assert [one.status_code for one in answers] == [200, 200, 200]
    assert [one.json["would"] for one in answers] == [
        "It is queued and would be cancelled.",
        "A new dispatch would be queued; this one is queued and would be cancelled.",
        "It is not sent and would be queued.",
    ]
    session.expire_all()
    states = session.scalars(select(Dispatch.state).order_by(Dispatch.id)).all()
    assert states == [State.QUEUED, State.ERRORED]


def test_a_dry_run_is_refused_as_the_action_would_be(
    api: ApiClient, client: FlaskClient, session: scoped_session[Session]
) -> None:
    arrived = make_dispatch(session(), source=api.source, state=State.SUCCEEDED)
    away = make_dispatch(session(), source=api.source, state=State.SENDING)
    emptied = make_dispatch(session(), source=api.source, state=State.CANCELLED)
    session.execute(delete(EmailContent).where(EmailContent.dispatch_id == emptied.id))
    session.commit()
    stranger = ApiClient(client, session(), source="ticket-shop")
    assert api.post(f"/dispatches/{arrived.id}/resend", headers=DRY).status_code == 409
    confirmed = api.post(f"/dispatches/{arrived.id}/resend", {"confirm": True}, headers=DRY)
    assert confirmed.status_code == 200
    assert api.post(f"/dispatches/{arrived.id}/cancel", headers=DRY).status_code == 409
    assert api.post(f"/dispatches/{away.id}/resend", headers=DRY).status_code == 409
    assert api.post(f"/dispatches/{emptied.id}/resend", headers=DRY).status_code == 409
    assert stranger.post(f"/dispatches/{away.id}/cancel", headers=DRY).status_code == 404
    noted = api.post(f"/dispatches/{away.id}/cancel", headers=DRY)
    assert "would be noted" in noted.json["would"]
    session.expire_all()
    assert session.get_one(Dispatch, away.id).cancel_noted_by == ""


def test_an_uploaded_file_can_be_named_by_the_messages_of_its_source(
    api: ApiClient, client: FlaskClient, session: scoped_session[Session], settings: Settings
) -> None:
    content = b"%PDF-1.7 \x00\xff"
    file = {"filename": "отчёт Q4.pdf", "content": base64.b64encode(content).decode()}
    assert api.post("/attachments", file, headers=DRY).status_code == 200
    uploaded = api.post("/attachments", {**file, "content_type": "application/pdf"})
    assert uploaded.status_code == 201
    assert uploaded.json["size"] == len(content)
    assert uploaded.json["sha256"] == hashlib.sha256(content).hexdigest()
    named = [uploaded.json["id"], {"id": uploaded.json["id"], "content_id": "q4@inline.invalid"}]
    sent = api.send(attachments=named)
    row = session.get_one(Dispatch, uuid.UUID(sent.json["id"]))
    files = files_of(session, row, settings)
    assert [(one.content, one.content_id) for one in files] == [
        (content, ""),
        (content, "q4@inline.invalid"),
    ]
    assert session.scalar(select(func.count()).select_from(Attachment)) == 1
    stranger = ApiClient(client, session(), source="ticket-shop")
    refused = stranger.send(attachments=[uploaded.json["id"]])
    assert refused.json["errors"][0]["field"] == "attachments[0]"


@pytest.mark.parametrize(
    ("file", "field"),
    [
        ({"filename": "../x", "content": "YQ=="}, "filename"),
        ({"filename": "x", "content": ""}, "content"),
        ({"filename": "x", "content": "YQ==", "path": "/etc/passwd"}, "path"),
        ({}, "filename"),
    ],
)
def test_a_file_that_cannot_be_stored_is_refused(
    api: ApiClient, file: dict[str, str], field: str
) -> None:
    answer = api.post("/attachments", file)
    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == field
