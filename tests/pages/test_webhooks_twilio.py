"""Status callbacks of Twilio, freshly signed, posted to the application's own address."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest
from flask import Flask
from flask.testing import FlaskClient
from pydantic import SecretStr
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session
from twilio.request_validator import RequestValidator
from werkzeug.test import TestResponse

import dashboard.settings as process
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Dispatch, Transition
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.states import Channel, State
from dashboard.providers import registry
from dashboard.settings import Settings
from tests.factories import make_attempt, make_dispatch

ACCOUNT = "AC00000000000000000000000000000001"
TOKEN = "an auth token"
SECOND = "the one before"
HOOK = "https://hooks.example.com/webhooks/twilio/status"
PATH = "/webhooks/twilio/status"


@pytest.fixture(autouse=True)
def _twilio(settings: Settings) -> Iterator[None]:
    process.use(
        settings.model_copy(
            update={
                "sms_provider": "twilio",
                "twilio_account_sid": ACCOUNT,
                "twilio_auth_token": SecretStr(TOKEN),
                "twilio_auth_token_second": SecretStr(SECOND),
                "twilio_from": "+12025550100",
                "twilio_webhook_url": HOOK,
            }
        )
    )
    yield
    registry.close_all()
    process.use(settings)


def fields_of(sid: str, status: str, code: str = "", **more: str) -> dict[str, str]:
    fields = {
        "ApiVersion": "2010-04-01",
        "SmsSid": sid,
        "SmsStatus": status,
        "MessageSid": sid,
        "MessageStatus": status,
        "To": "+12025550143",
        "From": "+12025550100",
        "AccountSid": ACCOUNT,
    }
    return {**fields, **({"ErrorCode": code} if code else {}), **more}


def post(
    client: FlaskClient,
    fields: dict[str, str],
    query: dict[str, str] | None = None,
    *,
    token: str = TOKEN,
    sent_query: dict[str, str] | None = None,
) -> TestResponse:
    """Post a callback signed over one query, with the same or another one."""
    signed = HOOK + (f"?{urlencode(query)}" if query else "")
    signature = RequestValidator(token).compute_signature(signed, fields)
    actual = query if sent_query is None else sent_query
    return client.post(
        PATH + (f"?{urlencode(actual)}" if actual else ""),
        data=fields,
        headers={"X-Twilio-Signature": signature},
    )


def awaiting(session: Session, sid: str) -> Dispatch:
    row = make_dispatch(
        session,
        channel=Channel.SMS,
        recipient="+12025550143",
        state=State.AWAITING,
        provider="twilio",
        provider_message_id=sid,
        proven=True,
    )
    make_attempt(
        session,
        row,
        route="twilio",
        provider_message_id=sid,
        evidence=int(Evidence.ACCEPTED),
        finished_at=func.now(),
    )
    session.commit()
    return row


def state_of(session: Session, row: Dispatch) -> State:
    session.expire_all()
    return session.get(Dispatch, row.id).state


@dataclass(frozen=True)
class Case:
    status: str
    code: str
    ends: State
    prefix: str = "SM"


CASES = [
    Case("accepted", "", State.AWAITING),
    Case("queued", "", State.AWAITING),
    Case("sending", "", State.AWAITING),
    Case("sent", "", State.AWAITING),
    Case("delivered", "", State.SUCCEEDED),
    Case("read", "", State.SUCCEEDED),
    Case("undelivered", "30003", State.ERRORED),
    Case("undelivered", "30005", State.ERRORED),
    Case("undelivered", "30006", State.ERRORED),
    Case("undelivered", "30007", State.ERRORED),
    Case("undelivered", "", State.ERRORED),
    Case("failed", "21610", State.ERRORED),
    Case("failed", "99999", State.ERRORED),
    Case("canceled", "", State.CANCELLED),
    Case("partially_delivered", "", State.AWAITING),
    Case("a word of next year", "", State.AWAITING),
    Case("sent", "", State.AWAITING, "MM"),
    Case("delivered", "", State.SUCCEEDED, "MM"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.prefix}-{c.status}-{c.code}")
def test_each_status_ends_where_it_must(
    client: FlaskClient, session: scoped_session[Session], case: Case
) -> None:
    sid = f"{case.prefix}{'0' * 30}01"
    row = awaiting(session, sid)
    query = {"dispatch": str(row.id), "attempt": "1"}
    for _ in range(2):
        response = post(client, fields_of(sid, case.status, case.code), query)
        assert 200 <= response.status_code < 300
    assert state_of(session, row) is case.ends
    assert session.scalar(select(func.count()).select_from(StoredReport)) == 1


def test_all_of_them_again_in_random_order_ten_at_a_time_change_nothing(
    app: Flask, session: scoped_session[Session]
) -> None:
    rows = []
    for number, case in enumerate(CASES):
        sid = f"{case.prefix}{number:032}"
        rows.append((awaiting(session, sid), sid, case))

    ids = {sid: str(row.id) for row, sid, _ in rows}

    def send(item: tuple[Dispatch, str, Case]) -> int:
        _, sid, case = item
        with app.test_client() as browser:
            query = {"dispatch": ids[sid], "attempt": "1"}
            return post(browser, fields_of(sid, case.status, case.code), query).status_code

    assert {send(one) for one in rows} == {204}
    before = [(state_of(session, row), row.version, row.updated_at) for row, _, _ in rows]
    assert [one[0] for one in before] == [case.ends for _, _, case in rows]
    again = rows * 3
    random.Random(7).shuffle(again)
    with ThreadPoolExecutor(10) as pool:
        assert set(pool.map(send, again)) == {204}
    after = [(state_of(session, row), row.version, row.updated_at) for row, _, _ in rows]
    assert after == before


def test_the_aliases_are_taken_where_the_message_pair_is_absent(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    row = awaiting(session, "SM" + "1" * 32)
    fields = fields_of("SM" + "1" * 32, "delivered")
    del fields["MessageSid"], fields["MessageStatus"]
    assert post(client, fields).status_code == 204
    assert state_of(session, row) is State.SUCCEEDED


def test_a_callback_that_names_no_status_is_refused(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    row = awaiting(session, "SM" + "1" * 32)
    fields = fields_of("SM" + "1" * 32, "delivered")
    del fields["SmsStatus"], fields["MessageStatus"]
    assert 400 <= post(client, fields).status_code < 500
    assert state_of(session, row) is State.AWAITING


def test_an_unknown_message_is_kept_as_unmatched(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    assert post(client, fields_of("SM" + "9" * 32, "delivered")).status_code == 204
    assert session.scalars(select(StoredReport)).one().outcome is ReportOutcome.UNMATCHED
    assert session.scalar(select(func.count()).select_from(Dispatch)) == 0


def test_the_id_of_another_row_wins_over_the_key(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    mine = awaiting(session, "SM" + "1" * 32)
    other = awaiting(session, "SM" + "2" * 32)
    query = {"dispatch": str(mine.id), "attempt": "1"}
    assert (
        post(client, fields_of("SM" + "2" * 32, "undelivered", "30003"), query).status_code == 204
    )
    assert state_of(session, mine) is State.AWAITING
    assert state_of(session, other) is State.ERRORED


HOSTILE_KEYS = [
    {"dispatch": "<script>alert(1)</script>", "attempt": "1"},
    {"dispatch": "x\x00" + "9" * 5000, "attempt": "1"},
    {"dispatch": "0193815c-7d2e-7000-8000-000000000001", "attempt": "9" * 5000},
    {"dispatch": "0193815c-7d2e-7000-8000-000000000001", "attempt": "-1"},
]


@pytest.mark.parametrize("query", HOSTILE_KEYS)
def test_a_hostile_key_is_refused_and_never_echoed(
    client: FlaskClient, session: scoped_session[Session], query: dict[str, str]
) -> None:
    response = post(client, fields_of("SM" + "1" * 32, "delivered"), query)
    assert 400 <= response.status_code < 500
    assert b"script" not in response.data
    assert session.scalar(select(func.count()).select_from(StoredReport)) == 0


def test_only_the_account_itself_is_believed(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    sid = "SM" + "1" * 32
    row = awaiting(session, sid)
    query = {"dispatch": str(row.id), "attempt": "1"}
    fields = fields_of(sid, "delivered")
    refused = [
        post(client, fields, query, token="wrong"),
        post(client, fields, None, sent_query=query),
        post(client, fields, query, sent_query={**query, "attempt": "2"}),
        post(client, {**fields, "AccountSid": "AC" + "9" * 32}, query),
        client.post(PATH, data=fields),
        client.post(PATH, json={"MessageSid": sid, "MessageStatus": "delivered"}),
        client.post(PATH, data=b"\xff\xfe", content_type="application/x-www-form-urlencoded"),
        client.post(PATH, data=b"[" * 3000, content_type="application/json"),
    ]
    assert {response.status_code for response in refused} == {403}
    assert state_of(session, row) is State.AWAITING
    assert session.scalar(select(func.count()).select_from(StoredReport)) == 0
    assert post(client, fields, query, token=SECOND).status_code == 204
    assert state_of(session, row) is State.SUCCEEDED


def test_forwarded_headers_and_hosts_do_not_matter(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    sid = "SM" + "1" * 32
    row = awaiting(session, sid)
    fields = fields_of(sid, "delivered")
    query = urlencode({"a": "é/:", "dispatch": str(row.id), "attempt": "1"})
    signature = RequestValidator(TOKEN).compute_signature(f"{HOOK}?{query}", fields)
    response = client.post(
        f"{PATH}?{query}",
        data=fields,
        headers={
            "X-Twilio-Signature": signature,
            "X-Forwarded-Proto": "http",
            "X-Forwarded-Host": "evil.example",
        },
    )
    assert response.status_code == 204


def test_an_undelivered_with_a_reason_is_not_blanked_by_a_later_one_without(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    sid = "SM" + "1" * 32
    row = awaiting(session, sid)
    post(client, fields_of(sid, "undelivered", "30003"))
    post(client, fields_of(sid, "failed"))
    post(client, fields_of(sid, "delivered"))
    assert state_of(session, row) is State.ERRORED
    assert session.get(Dispatch, row.id).error.startswith("30003")
    outcomes = session.scalars(select(StoredReport.outcome)).all()
    assert sorted(outcomes) == ["applied", "conflict", "ignored"]


def test_a_thousand_copies_of_one_report_are_one_line_of_history(
    app: Flask, session: scoped_session[Session]
) -> None:
    sid = "SM" + "1" * 32
    row = awaiting(session, sid)
    query = {"dispatch": str(row.id), "attempt": "1"}
    fields = fields_of(sid, "delivered")
    times: list[float] = []
    lock = threading.Lock()

    def send(_number: int) -> int:
        with app.test_client() as browser:
            began = time.perf_counter()
            status = post(browser, fields, query).status_code
            with lock:
                times.append(time.perf_counter() - began)
            return status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send, range(1000))) == {204}
    lines = session.scalar(
        select(func.count()).where(
            Transition.dispatch_id == row.id, Transition.state_to == "succeeded"
        )
    )
    assert lines == 1
    assert session.scalar(select(func.count()).select_from(StoredReport)) == 1
    assert sorted(times)[949] < 0.25
