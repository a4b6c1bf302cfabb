"""Asking the provider about one dispatch, and another time to go out: by page and by API."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient
from redis import Redis
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.models import Activity
from dashboard.access.permissions import Permission, Role
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Channel, NextStep, State
from dashboard.providers import registry
from dashboard.providers.base import Key, OutcomeKind, Sms
from dashboard.providers.sandbox_sms_route import sms_stand_in
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings
from tests.factories import make_attempt, make_dispatch, make_source
from tests.pages.api_client import ApiClient
from tests.pages.desk import sign_in

Db = scoped_session[Session]
DRY = {"Dry-Run": "true"}


@pytest.fixture
def stand_in(settings: Settings) -> Iterator[None]:
    """The sandbox's stand-in for the SMS provider, where the route finds it."""
    secret = settings.secret_key.get_secret_value()
    server = sms_stand_in(settings.data_dir, secret, pace_seconds=0.02)
    yield
    server.shutdown()
    server.server_close()
    server.stand_in.poster.stop()
    registry.close_all()


def accepted(session: Db, settings: Settings, *, sent: bool = True) -> Dispatch:
    """An SMS that awaits its report; the provider really has it if `sent`."""
    row = make_dispatch(
        session,
        source=make_source(session),
        channel=Channel.SMS,
        recipient="+12025550100",
        state=State.AWAITING,
        provider="sandbox",
    )
    message_id = "SM" + "0" * 32
    if sent:
        provider = registry.route("sandbox", settings, channel="sms")
        outcome = provider.send(Sms(row.recipient, "Hello"), Key(str(row.id), 1, "x"))
        assert outcome.kind is OutcomeKind.ACCEPTED
        message_id = outcome.provider_message_id
    now = session.scalar(select(func.clock_timestamp()))
    row.finished_at, row.provider_message_id, row.proven = now, message_id, True
    make_attempt(
        session,
        row,
        route="sandbox",
        provider_message_id=message_id,
        handed_over_at=now,
        finished_at=now,
        outcome=OutcomeKind.ACCEPTED,
        evidence=int(Evidence.ACCEPTED),
    )
    session.commit()
    return row


@pytest.mark.usefixtures("stand_in")
def test_what_the_provider_says_at_a_press_is_on_the_page(
    app: Flask, session: Db, settings: Settings
) -> None:
    desk = sign_in(app, session)
    row = accepted(session, settings)
    page = f"/dispatches/{row.id}"
    html = desk.get(page).text
    assert html.index("Check with provider") < html.index("Resend")
    answer = desk.press(page, f"{page}/check", htmx=True)
    assert answer.status_code == 200
    assert "The provider says: " in answer.text
    assert "asked the provider" in answer.text
    assert session.scalars(select(Activity.action)).all() == ["dispatch.check"]


@pytest.mark.usefixtures("stand_in")
def test_a_provider_that_cannot_say_is_told_and_nothing_changes(
    app: Flask, session: Db, settings: Settings
) -> None:
    desk = sign_in(app, session)
    row = accepted(session, settings, sent=False)
    page = f"/dispatches/{row.id}"
    assert desk.press(page, f"{page}/check").status_code == 303
    assert "The provider cannot say now." in desk.text(page)
    session.expire_all()
    assert session.get_one(Dispatch, row.id).state is State.AWAITING


def test_nobody_is_offered_to_ask_where_nobody_answers(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    rows = [
        make_dispatch(session, state=State.AWAITING, provider="smtp", attempts=1),
        make_dispatch(
            session, state=State.AWAITING, channel=Channel.SMS, provider="null", attempts=1
        ),
        make_dispatch(
            session, state=State.AWAITING, channel=Channel.SMS, provider="gone", attempts=1
        ),
    ]
    session.commit()
    for row in rows:
        assert "Check with provider" not in desk.get(f"/dispatches/{row.id}").text
    answer = desk.press(f"/dispatches/{rows[0].id}", f"/dispatches/{rows[0].id}/resend", htmx=True)
    assert answer.status_code == 200


def test_a_viewer_cannot_ask_even_by_hand(app: Flask, session: Db, settings: Settings) -> None:
    row = accepted(session, settings, sent=False)
    desk = sign_in(app, session, Role.VIEWER)
    fields = desk.fields("/dispatches", "/dispatches/search")
    data = {**fields, "version": str(row.version)}
    assert desk.client.post(f"/dispatches/{row.id}/check", data=data).status_code == 403


@pytest.fixture
def api(client: FlaskClient, session: Db) -> ApiClient:
    return ApiClient(client, session())


@pytest.mark.usefixtures("stand_in")
def test_the_api_asks_and_answers_with_what_was_said(
    api: ApiClient, session: Db, settings: Settings
) -> None:
    row = accepted(session, settings)
    dry = api.post(f"/dispatches/{row.id}/check", headers=DRY)
    assert dry.json["would"] == (
        "It is sent, awaiting report; sandbox would be asked what became of it."
    )
    assert session.scalars(select(Activity)).all() == []
    answer = api.post(f"/dispatches/{row.id}/check")
    assert answer.status_code == 200
    assert answer.json["said"].startswith("The provider says: ")
    assert answer.json["state"] == "awaiting"


def test_the_api_refuses_to_ask_about_what_nobody_can_tell(api: ApiClient) -> None:
    place = f"/dispatches/{api.send().json['id']}"
    assert api.post(f"{place}/check").status_code == 409
    assert api.post(f"/dispatches/{uuid.uuid4()}/check").status_code == 404


# ---- another time -----------------------------------------------------------------------------


def patch(api: ApiClient, place: str, body: object, **headers: str):
    return api.client.patch(f"/api/v1{place}", json=body, headers=api.headers(headers))


def row_of(session: Db, answer_id: str) -> Dispatch:
    session.expire_all()
    return session.get_one(Dispatch, uuid.UUID(answer_id))


def jobs(settings: Settings) -> int:
    redis: Redis = redis_connection(settings)
    return int(redis.llen("rq:queue:default"))


def test_a_waiting_one_goes_out_at_another_time_and_then_at_once(
    api: ApiClient, session: Db, settings: Settings
) -> None:
    sent = api.send(send_at="2031-05-01T12:00:00+02:00", valid_for_seconds=3600).json
    place = f"/dispatches/{sent['id']}"
    assert jobs(settings) == 0
    moved = patch(api, place, {"send_at": "2032-05-01T12:00:00+02:00"})
    assert moved.status_code == 200
    assert moved.json["due_at"] == "2032-05-01T10:00:00+00:00"
    row = row_of(session, sent["id"])
    assert row.published_at is None
    assert row.expires_at == row.due_at + timedelta(hours=1)
    assert jobs(settings) == 0
    assert patch(api, place, {"send_at": "2020-01-01T00:00:00Z"}).status_code == 200
    row = row_of(session, sent["id"])
    assert row.published_at is not None
    assert row.due_at <= session.scalar(select(func.clock_timestamp()))
    assert jobs(settings) == 1
    actions = session.scalars(select(Activity.action)).all()
    assert actions.count("dispatch.reschedule") == 2


def test_a_job_that_is_out_already_does_not_send_what_was_put_off(
    api: ApiClient, session: Db
) -> None:
    sent = api.send().json
    patch(api, f"/dispatches/{sent['id']}", {"send_at": "2031-05-01T12:00:00Z"})
    row = row_of(session, sent["id"])
    assert row.state is State.QUEUED
    assert row.published_at is None
    assert row.due_at == datetime.fromisoformat("2031-05-01T12:00:00+00:00")


def test_a_new_time_refuses_an_old_page_and_what_is_out(api: ApiClient, session: Db) -> None:
    sent = api.send().json
    place = f"/dispatches/{sent['id']}"
    at = {"send_at": "2031-05-01T12:00:00Z"}
    version = row_of(session, sent["id"]).version
    assert patch(api, place, {**at, "version": version}).status_code == 200
    assert patch(api, place, {**at, "version": version}).status_code == 409
    for state in (State.SENDING, State.SUCCEEDED, State.ERRORED, State.CANCELLED):
        row = make_dispatch(session(), source=api.source, state=state)
        session.commit()
        assert patch(api, f"/dispatches/{row.id}", at).status_code == 409, state
    asked = make_dispatch(
        session(), source=api.source, state=State.DELAYED, next_step=NextStep.LOOK_UP
    )
    session.commit()
    assert patch(api, f"/dispatches/{asked.id}", at).status_code == 409


def test_what_was_tried_already_is_not_put_off_beyond_its_end(api: ApiClient, session: Db) -> None:
    end = session.scalar(select(func.clock_timestamp())) + timedelta(hours=1)
    row = make_dispatch(
        session(), source=api.source, state=State.DELAYED, attempts=1, expires_at=end
    )
    session.commit()
    late = (end + timedelta(minutes=1)).isoformat()
    soon = (end - timedelta(minutes=1)).isoformat()
    assert "expires" in patch(api, f"/dispatches/{row.id}", {"send_at": late}).json["detail"]
    assert patch(api, f"/dispatches/{row.id}", {"send_at": soon}).status_code == 200
    assert row_of(session, str(row.id)).expires_at == end


def test_a_dry_run_of_a_new_time_changes_nothing(api: ApiClient, session: Db) -> None:
    sent = api.send().json
    before = row_of(session, sent["id"]).due_at
    body = {"send_at": "2031-05-01T12:00:00Z"}
    answer = patch(api, f"/dispatches/{sent['id']}", body, **DRY)
    assert answer.json["would"] == "It is queued and would be due at 2031-05-01T12:00:00+00:00."
    assert row_of(session, sent["id"]).due_at == before


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "send_at"),
        ({"send_at": "tomorrow"}, "send_at"),
        ({"send_at": "2031-05-01T12:00:00"}, "send_at"),
        ({"send_at": "2031-05-01T12:00:00Z", "version": "1"}, "version"),
        ({"send_at": "2031-05-01T12:00:00Z", "to": "eve@example.com"}, "to"),
    ],
)
def test_a_time_that_cannot_be_read_is_refused(
    api: ApiClient, body: dict[str, object], field: str
) -> None:
    place = f"/dispatches/{api.send().json['id']}"
    answer = patch(api, place, body)
    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == field


def test_only_who_asks_for_messages_gives_them_another_time(
    client: FlaskClient, session: Db
) -> None:
    row = make_dispatch(session(), source=make_source(session(), "programme-site"))
    session.commit()
    body = {"send_at": "2031-05-01T12:00:00Z"}
    reader = ApiClient(
        client, session(), permissions=[Permission.DISPATCH_LIST, Permission.DISPATCH_READ]
    )
    stranger = ApiClient(client, session(), source="ticket-shop")
    assert patch(reader, f"/dispatches/{row.id}", body).status_code == 403
    assert patch(stranger, f"/dispatches/{row.id}", body).status_code == 404
