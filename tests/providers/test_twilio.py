"""The twilio route with the real client against the stand-in, over real sockets."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from dashboard.clock import now
from dashboard.providers.base import Event, Key, OutcomeKind, Sms
from dashboard.providers.sandbox_sms import account_of, newest
from dashboard.providers.sandbox_sms_route import sms_stand_in
from dashboard.providers.twilio import Account, TwilioProvider
from dashboard.providers.twilio_reports import callback_url
from dashboard.providers.twilio_stand_in import StandInServer

SECRET = "a secret key"
KEY = Key("0193815c-7d2e-7000-8000-000000000001", 2, "idem")


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandInServer]:
    server = sms_stand_in(tmp_path, SECRET, pace_seconds=0.05)
    yield server
    server.shutdown()
    server.server_close()
    server.stand_in.poster.stop()


def provider_for(server: StandInServer, **values: object) -> TwilioProvider:
    sid, token = account_of(SECRET)
    account = Account(
        account_sid=sid,
        auth_token=str(values.pop("auth_token", token)),
        sender=str(values.pop("sender", "+12025550199")),
        api_url=f"http://127.0.0.1:{server.port}",
        timeouts=(1.0, 1.0),
        **values,
    )
    return TwilioProvider(account)


def test_an_sms_is_accepted_and_its_report_expected(
    stand_in: StandInServer, tmp_path: Path
) -> None:
    provider = provider_for(stand_in)
    outcome = provider.send(Sms("+12025550143", "Привет 😎"), KEY)
    provider.close()
    assert outcome.kind is OutcomeKind.ACCEPTED
    assert outcome.report_expected
    assert outcome.provider_message_id.startswith("SM")
    [kept] = newest(tmp_path)
    assert (kept.recipient, kept.body) == ("+12025550143", "Привет 😎")


@pytest.mark.parametrize(
    ("number", "kind", "code", "wait"),
    [
        ("0001", OutcomeKind.PERMANENT, "21211", None),
        ("0002", OutcomeKind.PERMANENT, "21612", None),
        ("0004", OutcomeKind.PERMANENT, "21610", None),
        ("0009", OutcomeKind.PERMANENT, "21614", None),
        ("0003", OutcomeKind.CONFIG, "21408", None),
        ("0006", OutcomeKind.CONFIG, "21606", None),
        ("0020", OutcomeKind.CONFIG, "20003", None),
        ("0029", OutcomeKind.TRANSIENT, "20429", 7.0),
        ("0038", OutcomeKind.TRANSIENT, "63038", 86400.0),
        ("0050", OutcomeKind.UNKNOWN, "20500", None),
        ("0053", OutcomeKind.UNKNOWN, "503", None),
        ("0035", OutcomeKind.UNKNOWN, "", None),
        ("0040", OutcomeKind.UNKNOWN, "", None),
        ("0041", OutcomeKind.UNKNOWN, "", None),
    ],
)
def test_each_answer_is_the_outcome_that_it_needs(
    stand_in: StandInServer, number: str, kind: OutcomeKind, code: str, wait: float | None
) -> None:
    provider = provider_for(stand_in)
    outcome = provider.send(Sms(f"+1500555{number}", "Hello"), KEY)
    provider.close()
    assert (outcome.kind, outcome.code) == (kind, code), outcome
    assert outcome.retry_after_seconds == wait
    assert outcome.suppress is (code == "21610")


def test_an_api_that_cannot_be_reached_is_transient(stand_in: StandInServer) -> None:
    provider = provider_for(stand_in)
    stand_in.shutdown()
    stand_in.server_close()
    assert provider.send(Sms("+12025550143", "Hello"), KEY).kind is OutcomeKind.TRANSIENT
    provider.close()


def test_wrong_credentials_are_config_for_send_and_probe(stand_in: StandInServer) -> None:
    provider = provider_for(stand_in, auth_token="wrong")
    assert provider.send(Sms("+12025550143", "Hello"), KEY).kind is OutcomeKind.CONFIG
    assert provider.probe().kind is OutcomeKind.CONFIG
    provider.close()
    right = provider_for(stand_in)
    assert right.probe().kind is OutcomeKind.ACCEPTED
    right.close()


def test_the_status_of_one_message_is_fetched_by_its_id(stand_in: StandInServer) -> None:
    provider = provider_for(stand_in)
    delivered = provider.send(Sms("+12025550143", "Hello"), KEY).provider_message_id
    failing = provider.send(Sms("+12025550109", "Hello"), KEY).provider_message_id
    time.sleep(0.4)
    report = provider.fetch_status(delivered).report
    assert report is not None
    assert report.event is Event.DELIVERED
    failed = provider.fetch_status(failing).report
    assert failed is not None
    assert (failed.event, failed.code) == (Event.FAILED, "30003")
    assert provider.fetch_status("SM" + "0" * 32).report is None
    provider.close()


def test_a_look_up_finds_what_was_accepted_without_an_answer(stand_in: StandInServer) -> None:
    provider = provider_for(stand_in)
    began = now()
    lost = Sms("+15005550040", "Dropped after accept")
    assert provider.send(lost, KEY).kind is OutcomeKind.UNKNOWN
    found = provider.look_up(lost, began)
    assert found.answered
    assert found.report is not None
    assert provider.look_up(Sms("+15005550040", "Another text"), began).report is None
    assert provider.look_up(lost, began + timedelta(minutes=5)).report is None
    provider.send(lost, KEY)
    assert not provider.look_up(lost, began).answered
    provider.close()


def test_the_callback_keeps_the_query_and_sets_our_key_once() -> None:
    url = callback_url("https://x.example/hook?a=1&dispatch=old&attempt=9", "new", 3)
    assert url == "https://x.example/hook?a=1&dispatch=new&attempt=3"
