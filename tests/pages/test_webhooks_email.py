"""Reports of email services, freshly signed, posted to the application's own address."""

import json
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as process
from dashboard.clock import now
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.reports.models import ReportOutcome
from dashboard.dispatch.states import State
from dashboard.settings import Settings
from jobs.sender import Sender
from tests.factories import make_dispatch
from tests.pages.esp_reports import REPORTING, all_configured, events_of, known, read, reports
from tests.pages.esp_signing import (
    sign,
)
from tests.providers.esp_settings import set_up
from tests.providers.esp_stand_in import StandIn

CASES = [(esp, name) for esp in REPORTING for name in events_of(esp)]


@pytest.fixture(autouse=True)
def _services(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with all_configured(settings, monkeypatch):
        yield


@pytest.mark.parametrize(("esp", "name"), CASES)
def test_each_event_ends_where_it_must(
    client: FlaskClient, session: scoped_session[Session], esp: str, name: str
) -> None:
    case = events_of(esp)[name]
    row = known(session, esp, case["id"], State(case["from"]))
    began = time.perf_counter()
    for _ in range(2):
        request = sign(esp, case["body"], case.get("headers"), tamper=case.get("tamper", ""))
        response = request.post(client)
        if case.get("refused"):
            assert 400 <= response.status_code < 500
        else:
            assert response.status_code == 204
    assert time.perf_counter() - began < 5
    after = read(session, row)
    assert after.state is State(case["ends"])
    assert after.complained is case.get("complained", False)
    stored = reports(session)
    # A repeat, freshly signed, is no second report; a refused one none at all.
    is_nothing = case.get("refused") or name == "empty_array"
    assert len(stored) == (0 if is_nothing else 1)
    if case.get("text_shown"):
        assert after.error == stored[0].reason != ""
    for one in stored:
        assert one.provider == f"anymail:{esp}"
        kept = json.dumps(one.raw)
        assert "ada@example.com" not in kept + one.reason
        assert "Weekly notice" not in kept


def test_all_of_them_again_in_random_order_ten_at_a_time_change_nothing(
    app: Flask, session: scoped_session[Session]
) -> None:
    cases = [(esp, name, events_of(esp)[name]) for esp, name in CASES]
    rows = [known(session, esp, case["id"], State(case["from"])) for esp, _, case in cases]

    def send(item: tuple[str, str, dict[str, Any]]) -> int:
        esp, _, case = item
        with app.test_client() as browser:
            signed = sign(esp, case["body"], case.get("headers"), tamper=case.get("tamper", ""))
            return signed.post(browser).status_code

    for one in cases:
        send(one)
    before = [(r.state, r.version, r.updated_at) for r in (read(session, row) for row in rows)]
    again = cases * 2
    random.Random(7).shuffle(again)
    with ThreadPoolExecutor(10) as pool:
        statuses = set(pool.map(send, again))
    assert statuses <= {204, 401, 403}
    after = [(r.state, r.version, r.updated_at) for r in (read(session, row) for row in rows)]
    assert after == before


def test_a_malformed_event_costs_only_itself(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    good = events_of("sendgrid")["category_as_string"]
    bounce = events_of("sendgrid")["bounce"]
    delivered = known(session, "sendgrid", good["id"])
    bounced = known(session, "sendgrid", bounce["id"])
    bad = [{"no event": True}, None, {"event": "delivered", "timestamp": "yesterday"}, "text"]
    batch = [*good["body"], *bad, *bounce["body"]]
    assert sign("sendgrid", batch).post(client).status_code == 204
    assert read(session, delivered).state is State.SUCCEEDED
    assert read(session, bounced).state is State.ERRORED
    unread = [one for one in reports(session) if "could not be read" in one.reason]
    assert len(unread) == len(bad)
    # Repeats of unreadable ones are known as well.
    assert sign("sendgrid", batch).post(client).status_code == 204
    assert len(reports(session)) == len(bad) + 2


def test_two_events_of_one_message_in_a_batch_are_both_applied(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    [event] = events_of("sendgrid")["category_as_string"]["body"]
    row = known(session, "sendgrid", event["anymail_id"])
    batch = [event, {**event, "event": "processed", "timestamp": event["timestamp"] - 1}]
    assert sign("sendgrid", batch).post(client).status_code == 204
    assert read(session, row).state is State.SUCCEEDED
    assert len(reports(session)) == 2


KEYED: list[tuple[str, str, list[str]]] = [
    ("postmark", "delivery", ["Metadata"]),
    ("mailgun", "delivered", ["event-data", "user-variables"]),
    ("brevo", "delivered", ["X-Mailin-custom"]),
    ("resend", "sent", ["data", "headers"]),
    ("sendgrid", "processed", []),
    ("ses", "delivery", ["Message", "mail", "headers"]),
    ("sparkpost", "delivery", ["msys", "message_event", "rcpt_meta"]),
    ("mandrill", "hard_bounce", ["msg", "metadata"]),
    ("mailjet", "bounce_hard", ["Payload"]),
    ("mailtrap", "delivery", ["events", "0", "custom_variables"]),
    ("unisender_go", "hard_bounced", ["metadata"]),
]


def with_key(body: Any, path: list[str], key: str) -> Any:
    """Return a body whose event carries our key where its service puts metadata."""
    metadata = {"wireroom_dispatch": key}
    if isinstance(body, list):
        return [*body[:-1], with_key(body[-1], path, key)]
    if not path:
        return {**body, **metadata}
    name, *rest = path
    if name == "events":
        return {**body, name: [with_key(body[name][0], rest[1:], key)]}
    if rest:
        return {**body, name: with_key(body[name], rest, key)}
    if name == "headers":
        return {**body, name: [{"name": "X-Metadata", "value": json.dumps(metadata)}]}
    is_text = name in ("X-Mailin-custom", "Payload")
    return {**body, name: json.dumps(metadata) if is_text else metadata}


@pytest.mark.parametrize(("esp", "name", "path"), KEYED)
def test_our_key_finds_the_attempt_before_its_id_is_stored(
    client: FlaskClient,
    session: scoped_session[Session],
    esp: str,
    name: str,
    path: list[str],
) -> None:
    case = events_of(esp)[name]
    row = known(session, esp, "")
    body = with_key(case["body"], path, f"{row.id}.1")
    assert sign(esp, body, case.get("headers")).post(client).status_code == 204
    assert read(session, row).state is State(case["ends"])
    [one] = reports(session)
    assert one.dispatch_id == row.id
    assert session.scalars(select(Attempt.provider_message_id)).one() == case["id"].strip("<>")


def test_a_permanent_bounce_is_told_from_a_soft_one(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    wanted = {
        ("postmark", "bounce_hard"): True,
        ("postmark", "bounce_soft"): False,
        ("postmark", "bounce_blocked"): True,
        ("brevo", "hard_bounce"): True,
        ("brevo", "soft_bounce"): False,
        ("brevo", "blocked"): True,
        ("ses", "bounce_transient_but_550"): True,
        ("ses", "bounce_undetermined"): False,
        ("ses", "bounce_suppressed"): True,
        ("ses", "delivery_after_which_bounce"): True,
        ("mailgun", "failed_permanent_bounce"): True,
        ("mailersend", "soft_bounced"): False,
        ("mailersend", "hard_bounced"): True,
        ("mailjet", "bounce_hard"): True,
        ("postal", "hard_fail"): True,
        ("resend", "failed"): False,
    }
    for esp, name in wanted:
        case = events_of(esp)[name]
        assert sign(esp, case["body"], case.get("headers")).post(client).status_code == 204
    found = {(one.provider, one.provider_message_id): one.permanent for one in reports(session)}
    told = {
        (esp, name): found[f"anymail:{esp}", events_of(esp)[name]["id"].strip("<>")]
        for esp, name in wanted
    }
    assert told == wanted


def test_seconds_taken_for_milliseconds_are_put_right(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    body = events_of("brevo")["error_ts_epoch_in_seconds"]["body"]
    seconds = int(now().timestamp()) - 60
    assert sign("brevo", {**body, "ts_epoch": seconds}).post(client).status_code == 204
    [one] = reports(session)
    assert one.occurred_at.timestamp() == seconds


def test_resends_report_about_several_is_about_the_whole_message(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    assert (
        sign("resend", events_of("resend")["multi_recipient"]["body"]).post(client).status_code
        == 204
    )
    assert [one.recipient for one in reports(session)] == [""]


def test_mailguns_forms_of_old_are_read(
    client: FlaskClient, session: scoped_session[Session]
) -> None:
    row = known(session, "mailgun", "old@mg.example.com")
    block = json.loads(sign("mailgun", {"event-data": {}}).body)["signature"]
    form = {
        **block,
        "event": "bounced",
        "recipient": "ada@example.com",
        "Message-Id": "<old@mg.example.com>",
        "code": "550",
        "error": "550 5.1.1 no such user",
    }
    assert client.post("/webhooks/email/mailgun", data=form).status_code == 204
    assert read(session, row).state is State.ERRORED
    assert client.post("/webhooks/email/mailgun", data={**form, "token": "x"}).status_code == 403


@pytest.mark.parametrize("esp", ["postmark", "mailgun", "ses"])
def test_from_the_worker_to_the_report(
    client: FlaskClient,
    session: scoped_session[Session],
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    esp: str,
) -> None:
    stand_in = StandIn()
    set_up(monkeypatch, esp, stand_in.url(esp))
    row = make_dispatch(session, html="<p>Hello</p>")
    session.commit()
    sender = Sender(process.current().model_copy(update={"email_provider": f"anymail:{esp}"}), "w")
    sender.work([row.id], "default")
    sender.close()
    sent = read(session, row)
    assert sent.state is State.AWAITING
    assert len(stand_in.taken) == 1
    assert f"{row.id}.1" in (stand_in.taken[0].text if esp != "ses" else f"{row.id}.1")
    stand_in.stop()
    name = {"postmark": "delivery", "mailgun": "delivered", "ses": "delivery"}[esp]
    case = events_of(esp)[name]
    text = json.dumps(case["body"]).replace(case["id"].strip("<>"), sent.provider_message_id)
    assert sign(esp, json.loads(text), case.get("headers")).post(client).status_code == 204
    assert read(session, row).state is State.SUCCEEDED


def test_an_unmatched_report_is_kept(client: FlaskClient, session: scoped_session[Session]) -> None:
    case = events_of("postmark")["delivery"]
    assert sign("postmark", case["body"]).post(client).status_code == 204
    assert [one.outcome for one in reports(session)] == [ReportOutcome.UNMATCHED]
    assert session.scalar(select(func.count()).select_from(Dispatch)) == 0
