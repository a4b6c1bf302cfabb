"""`ANYMAIL_…` as people set it, rightly and wrongly; strategies; what is kept of an event."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from dashboard.clock import now
from dashboard.providers import registry
from dashboard.providers.anymail_reports import report_of, unreadable
from dashboard.providers.anymail_settings import AnymailInvalid, configuration
from dashboard.providers.base import Event, Report
from dashboard.providers.registry import RouteInvalid
from dashboard.providers.tracking import MetadataStrategy, TagStrategy, TrackedReport, as_key
from dashboard.settings import Settings, anymail_environment, load_settings
from tests.providers.esp_settings import set_up

KEY = "0193815c-7d2e-7000-8000-000000000001.2"


@pytest.fixture
def settings() -> Settings:
    return load_settings(
        _env_file=None, secret_key="x", public_base_url="https://desk.example.com/"
    )


@pytest.fixture(autouse=True)
def _routes() -> Iterator[None]:
    yield
    registry.close_all()


@pytest.mark.parametrize(
    ("esp", "given", "words"),
    [
        ("postmark", {"SERVER_TOKEN": ""}, "ANYMAIL_POSTMARK_SERVER_TOKEN must be set"),
        ("postmark", {"SERVER_TOKNE": "x"}, "ANYMAIL_POSTMARK_SERVER_TOKNE is unknown"),
        ("postmark", {"API_URL": "ftp://x"}, "ANYMAIL_POSTMARK_API_URL must begin with http"),
        ("postmark", {"SEND_DEFAULTS": "[1]"}, "ANYMAIL_POSTMARK_SEND_DEFAULTS must be a JSON"),
        ("postmark", {"SEND_DEFAULTS": "{"}, "ANYMAIL_POSTMARK_SEND_DEFAULTS must be a JSON"),
        ("postmark", {"WEBHOOK_SECRET": "no colon"}, "must be user:password"),
        ("brevo", {"PREVENT_HEADER_ENCODING_BUGS": "maybe"}, "must be true or false"),
        ("ses", {"TOPIC_ARNS": "*"}, "ANYMAIL_SES_TOPIC_ARNS has what is not"),
        ("ses", {"REGION": ""}, "ANYMAIL_SES_REGION must be set"),
    ],
)
def test_a_wrong_setting_is_named_and_its_value_is_not(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    esp: str,
    given: dict[str, str],
    words: str,
) -> None:
    set_up(monkeypatch, esp, secret=False, **given)
    with pytest.raises(RouteInvalid, match=words) as raised:
        registry.route(f"anymail:{esp}", settings)
    assert "a server token" not in str(raised.value)


def test_an_unknown_service_is_told_which_there_are(settings: Settings) -> None:
    with pytest.raises(RouteInvalid, match="Available: brevo, mailersend"):
        registry.route("anymail:nonsense", settings)


def test_the_environment_wins_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text(
        "ANYMAIL_POSTMARK_SERVER_TOKEN=file\nANYMAIL_POSTMARK_MESSAGE_STREAM=outbound\nSMTP_URL=x\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANYMAIL_POSTMARK_SERVER_TOKEN", "environment")
    found = anymail_environment()
    assert found["POSTMARK_SERVER_TOKEN"] == "environment"
    assert found["POSTMARK_MESSAGE_STREAM"] == "outbound"
    assert "SMTP_URL" not in found


def test_who_signs_is_not_asked_for_the_shared_password(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    for esp in ("postmark", "mailgun", "mailtrap", "ses"):
        set_up(monkeypatch, esp)
    assert configuration("postmark", settings).basic_auth
    for esp in ("mailgun", "mailtrap", "ses"):
        assert configuration(esp, settings).basic_auth == ()
    monkeypatch.setenv("ANYMAIL_SES_WEBHOOK_SECRET", "own:pair, other:pair")
    assert configuration("ses", settings).basic_auth == ("own:pair", "other:pair")


def test_a_repr_of_a_route_shows_no_secret(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    set_up(monkeypatch, "postmark")
    found = configuration("postmark", settings)
    assert "a server token" not in repr(found)
    assert "a long password" not in repr(found)


def test_a_missing_key_is_an_error_of_the_settings(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    monkeypatch.delenv("ANYMAIL_RESEND_API_KEY", raising=False)
    with pytest.raises(AnymailInvalid, match="ANYMAIL_RESEND_API_KEY"):
        configuration("resend", settings)


@pytest.mark.parametrize(
    "value",
    [
        "",
        None,
        7,
        {"a": 1},
        "-" * 36,
        KEY + "x",
        "x" + KEY,
        KEY + "\n",
        KEY.split(".")[0] + ".9999999",
    ],
)
def test_what_is_no_key_of_ours_is_no_key(value: object) -> None:
    assert as_key(value) == ""


def test_the_shipped_strategies_find_what_they_attached() -> None:
    message = SimpleNamespace(metadata={}, tags=[], extra_headers={})
    for strategy in (MetadataStrategy(), TagStrategy()):
        strategy.attach(message, KEY)
    report = TrackedReport(metadata=message.metadata, tags=["other", *message.tags])
    assert MetadataStrategy().find_key(report) == TagStrategy().find_key(report) == KEY


def event(**values: object) -> SimpleNamespace:
    fields = {
        "event_type": "bounced",
        "timestamp": None,
        "message_id": "<m-1@example.com>",
        "recipient": "ada@example.com",
        "description": None,
        "mta_response": None,
        "reject_reason": "bounced",
        "metadata": {},
        "tags": [],
        "click_url": None,
        "esp_event": {},
    }
    return SimpleNamespace(**{**fields, **values})


def made(raw: object, esp: str = "postmark", **values: object) -> Report:
    return report_of(event(**values), raw, f"anymail:{esp}", MetadataStrategy())


def test_what_is_kept_has_no_address_no_content_and_an_end() -> None:
    deep: object = "ada@example.com"
    for _ in range(50):
        deep = {"deeper": deep}
    raw = {
        "Subject": "secret plan",
        "Email": "ada@example.com",
        "Details": "550 no ada@example.com here " + "x" * 9000,
        "signature": {"token": "t"},
        "many": [{"to": "x"}] * 5000,
        "deep": deep,
        **{f"name {number}": number for number in range(500)},
    }
    report = made(raw, mta_response=str(raw["Details"]))
    kept = json.dumps(report.raw)
    assert len(kept) < 16_000
    assert "example.com" not in kept + report.reason
    assert "secret plan" not in kept
    assert "token" not in kept
    assert len(report.reason) <= 2000
    assert report.code == "550"
    assert report.permanent


def test_a_link_is_known_again_but_not_kept() -> None:
    url = "https://example.com/reset?token=secret"
    one = made({"OriginalLink": url}, event_type="clicked", click_url=url)
    other = made({}, event_type="clicked", click_url=url + "2")
    assert "secret" not in json.dumps(one.raw)
    assert one.raw["click_url"] != other.raw["click_url"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), None),
        (datetime(3000, 1, 1, tzinfo=UTC), None),
        (datetime(2026, 5, 1, 12, 0), datetime(2026, 5, 1, 12, 0, tzinfo=UTC)),  # noqa: DTZ001 - some give no zone
        (None, None),
    ],
)
def test_a_time_that_cannot_be_is_left_out(given: datetime | None, kept: datetime | None) -> None:
    if kept is not None and kept > now() + timedelta(days=2):
        kept = None
    assert made({}, timestamp=given).occurred_at == kept


@pytest.mark.parametrize(
    ("values", "permanent", "code"),
    [
        ({"mta_response": "smtp; 550 5.1.1 unknown"}, True, "5.1.1"),
        ({"mta_response": "452 4.2.2 full"}, False, "4.2.2"),
        ({"mta_response": "no idea"}, False, ""),
        ({"event_type": "rejected"}, True, ""),
        ({"event_type": "delivered", "mta_response": "250 ok"}, False, "250"),
    ],
)
def test_permanent_is_what_the_status_says(
    values: dict[str, object], permanent: bool, code: str
) -> None:
    report = made({}, **values)
    assert (report.permanent, report.code) == (permanent, code)


@pytest.mark.parametrize(
    ("esp", "raw", "kind"),
    [
        ("ses", {"eventType": "DeliveryDelay"}, Event.DEFERRED),
        ("resend", {"type": "email.suppressed"}, Event.FAILED),
        ("resend", {"type": "email.failed"}, Event.FAILED),
        ("resend", {"type": "email.delivery_delayed"}, Event.DEFERRED),
        ("resend", {"type": "contact.created"}, Event.OTHER),
        ("postmark", {"RecordType": "Of next year"}, Event.OTHER),
    ],
)
def test_what_anymail_does_not_know_is_read_from_the_event(
    esp: str, raw: dict[str, object], kind: Event
) -> None:
    assert made(raw, esp, event_type="unknown").event is kind


def test_unreadable_events_are_told_apart() -> None:
    one, other = (unreadable(raw, "anymail:postmark") for raw in ({"a": 1}, {"a": 2}))
    assert one.raw["status"] != other.raw["status"]
    assert one.event is Event.OTHER
