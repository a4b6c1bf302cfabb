"""Sending through every email service: the real backends against a stand-in, over real sockets."""

import base64
import logging
import pkgutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from email import message_from_bytes
from email.policy import default as default_policy

import anymail.backends
import pytest

from dashboard.providers import registry
from dashboard.providers.anymail_bridge import AnymailProvider
from dashboard.providers.anymail_esps import ESPS
from dashboard.providers.anymail_settings import configuration
from dashboard.providers.base import Email, File, Key, OutcomeKind, Sms
from dashboard.providers.registry import RouteInvalid
from dashboard.providers.tracking import METADATA_NAME, TrackedReport
from dashboard.settings import Settings, load_settings
from tests.providers.esp_settings import provider, set_up
from tests.providers.esp_stand_in import StandIn
from tests.providers.factories import email, key

QUICK = (0.5, 0.5)


@pytest.fixture
def settings() -> Settings:
    return load_settings(_env_file=None, secret_key="x", public_base_url="https://desk.example.com")


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    started = StandIn()
    yield started
    started.stop()


@pytest.fixture(autouse=True)
def _routes() -> Iterator[None]:
    yield
    registry.close_all()


def quick(esp: str, settings: Settings) -> AnymailProvider:
    return AnymailProvider(replace(configuration(esp, settings), timeouts=QUICK))


def test_every_backend_that_is_installed_is_selectable(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    shipped = {one.name for one in pkgutil.iter_modules(anymail.backends.__path__)}
    not_services = {"base", "base_requests", "console", "test"}
    old_names = {"sendinblue"}
    assert {esp.module for esp in ESPS.values()} == shipped - not_services - old_names
    for name in ESPS:
        set_up(monkeypatch, name)
        assert registry.route(f"anymail:{name}", settings).name == f"anymail:{name}"


@pytest.mark.parametrize("esp", sorted(ESPS))
def test_an_email_is_accepted_once_with_the_services_id(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn, esp: str
) -> None:
    set_up(monkeypatch, esp, stand_in.url(esp))
    sending = provider(esp, settings)
    outcome = sending.send(email(html="<p>Hello</p>"), key())
    sending.close()
    assert outcome.kind is OutcomeKind.ACCEPTED, outcome
    assert outcome.provider_message_id
    assert "<" not in outcome.provider_message_id
    assert outcome.report_expected is bool(ESPS[esp].view)
    [taken] = stand_in.taken
    assert taken.path.startswith(f"/{esp}/")


@pytest.mark.parametrize("esp", sorted(set(ESPS) - {"unisender_go", "scaleway"}))
def test_without_a_webhook_secret_no_report_is_expected(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn, esp: str
) -> None:
    set_up(monkeypatch, esp, stand_in.url(esp), secret=False)
    sending = provider(esp, settings)
    assert not sending.capabilities.gives_reports
    assert not sending.send(email(), key()).report_expected
    sending.close()


ANSWERS = [
    ("e400", OutcomeKind.PERMANENT, None),
    ("e401", OutcomeKind.CONFIG, None),
    ("e403", OutcomeKind.CONFIG, None),
    ("e404", OutcomeKind.CONFIG, None),
    ("e408", OutcomeKind.TRANSIENT, None),
    ("e413", OutcomeKind.PERMANENT, None),
    ("e422", OutcomeKind.PERMANENT, None),
    ("e429", OutcomeKind.TRANSIENT, 7.0),
    ("e500", OutcomeKind.UNKNOWN, None),
    ("e502", OutcomeKind.UNKNOWN, None),
    ("e503", OutcomeKind.UNKNOWN, None),
    ("slow", OutcomeKind.UNKNOWN, None),
    ("drop", OutcomeKind.UNKNOWN, None),
    ("odd", OutcomeKind.UNKNOWN, None),
]


@pytest.mark.parametrize("esp", ["postmark", "mailgun", "resend", "ses"])
@pytest.mark.parametrize(("recipient", "kind", "wait"), ANSWERS)
def test_each_answer_is_the_outcome_that_it_needs(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    stand_in: StandIn,
    esp: str,
    recipient: str,
    kind: OutcomeKind,
    wait: float | None,
) -> None:
    set_up(monkeypatch, esp, stand_in.url(esp))
    sending = quick(esp, settings)
    address = f"{recipient}@example.com"
    outcome = sending.send(email(recipient=address, to=(address,)), key())
    sending.close()
    assert outcome.kind is kind, outcome
    assert outcome.retry_after_seconds == wait
    assert address not in outcome.detail
    # Whatever it was: nothing was repeated.
    assert len(stand_in.taken) == 1


@pytest.mark.parametrize("recipient", ["inactive", "vague", "half"])
def test_what_postmark_answers_in_prose_is_not_taken_for_a_success(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn, recipient: str
) -> None:
    set_up(monkeypatch, "postmark", stand_in.url("postmark"))
    sending = provider("postmark", settings)
    address = f"{recipient}@example.com"
    outcome = sending.send(email(recipient=address, to=(address,)), key())
    sending.close()
    assert outcome.kind is OutcomeKind.PERMANENT
    assert outcome.suppress is (recipient != "vague")


@pytest.mark.parametrize(
    ("recipient", "kind"),
    [("refused", OutcomeKind.PERMANENT), ("suspended", OutcomeKind.CONFIG)],
)
def test_an_error_that_postal_gives_as_a_success_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    stand_in: StandIn,
    recipient: str,
    kind: OutcomeKind,
) -> None:
    set_up(monkeypatch, "postal", stand_in.url("postal"))
    sending = provider("postal", settings)
    address = f"{recipient}@example.com"
    assert sending.send(email(recipient=address, to=(address,)), key()).kind is kind
    sending.close()


@pytest.mark.parametrize("esp", ["postmark", "ses"])
def test_a_service_that_cannot_be_reached_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, esp: str
) -> None:
    set_up(monkeypatch, esp)
    sending = quick(esp, settings)
    assert sending.send(email(), key()).kind is OutcomeKind.TRANSIENT
    assert sending.probe().kind is OutcomeKind.TRANSIENT


@pytest.mark.parametrize("esp", ["mailgun", "ses"])
def test_a_probe_says_whether_the_service_can_be_reached(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn, esp: str
) -> None:
    set_up(monkeypatch, esp, stand_in.url(esp))
    assert provider(esp, settings).probe().kind is OutcomeKind.ACCEPTED


def test_the_key_goes_along_as_metadata(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "postmark", stand_in.url("postmark"))
    mine = key()
    sending = provider("postmark", settings)
    sending.send(email(), mine)
    sending.close()
    assert stand_in.taken[0].json()["Metadata"] == {METADATA_NAME: f"{mine.dispatch_id}.1"}


def test_what_cannot_be_tracked_is_sent_without_exactly_once(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    stand_in: StandIn,
    caplog: pytest.LogCaptureFixture,
) -> None:
    set_up(monkeypatch, "mailersend", stand_in.url("mailersend"))
    sending = provider("mailersend", settings)
    with caplog.at_level(logging.INFO, "wireroom.anymail"):
        outcome = sending.send(email(), key())
    sending.close()
    assert outcome.kind is OutcomeKind.ACCEPTED
    assert len(stand_in.taken) == 1
    assert [one.levelname for one in caplog.records if "tracking" in one.message] == ["INFO"]


class HeaderStrategy:
    """A strategy of somebody's own."""

    def attach(self, message: object, key: str) -> None:
        message.extra_headers["X-Mine"] = key

    def find_key(self, report: TrackedReport) -> str:
        return ""


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ("none", None),
        ("tag", '"Tag": "wireroom-'),
        (f"{__name__}.HeaderStrategy", '"X-Mine"'),
    ],
)
def test_other_strategies_carry_the_key_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    stand_in: StandIn,
    wanted: str,
    where: str | None,
) -> None:
    set_up(monkeypatch, "postmark", stand_in.url("postmark"))
    changed = settings.model_copy(update={"email_tracking_strategy": wanted})
    mine = key()
    sending = provider("postmark", changed)
    sending.send(email(message_id="", headers={}), mine)
    sending.close()
    text = stand_in.taken[0].text
    assert METADATA_NAME not in text
    assert (f"{mine.dispatch_id}.1" in text) is (where is not None)
    assert where is None or where in text


@pytest.mark.parametrize("wanted", ["nonsense", "os.path", "os.nothing", "dashboard.cli.main"])
def test_a_strategy_that_is_none_makes_the_route_invalid(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, wanted: str
) -> None:
    set_up(monkeypatch, "postmark")
    changed = settings.model_copy(update={"email_tracking_strategy": wanted})
    with pytest.raises(RouteInvalid, match="WIREROOM_EMAIL_TRACKING_STRATEGY"):
        registry.route("anymail:postmark", changed)


def test_resend_drops_a_second_copy_by_the_key_in_the_http_header(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "resend", stand_in.url("resend"))
    sending = provider("resend", settings)
    dispatch_id = str(uuid.uuid4())
    message = email()
    ids = {
        sending.send(message, Key(dispatch_id, number, f"{dispatch_id}.1")).provider_message_id
        for number in (1, 2)
    }
    sending.close()
    assert len(ids) == 1
    first, second = stand_in.taken
    assert first.headers["idempotency-key"] == f"{dispatch_id}.1"
    assert "idempotency" not in first.text.lower()
    # The service answers 409 to another body under the same key.
    assert first.body == second.body
    assert sending.capabilities.takes_idempotency_key
    assert sending.capabilities.idempotency_seconds == 24 * 3600


def test_brevo_takes_the_key_as_a_uuid_among_the_headers(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "brevo", stand_in.url("brevo"))
    sending = provider("brevo", settings)
    dispatch_id = str(uuid.uuid4())
    message = email()
    for number in (1, 2):
        sending.send(message, Key(dispatch_id, number, f"{dispatch_id}.1"))
    sending.close()
    first, second = (one.json() for one in stand_in.taken)
    assert uuid.UUID(first["headers"]["idempotencyKey"])
    assert first == second
    assert sending.capabilities.idempotency_seconds == 30 * 60


INJECTIONS = [
    {"subject": "Hello\r\nBcc: eve@example.com"},
    {"recipient": "ada@example.com\nBcc: eve@example.com"},
    {"recipient": "ada@example.com, eve@example.com"},
    {"sender": "Ops\r\nX: y <ops@example.com>"},
    {"reply_to": ("a@example.com\x00",)},
    {"headers": {"X-A": "b\nBcc: eve@example.com"}},
    {"headers": {"Bcc": "eve@example.com"}},
    {"headers": {"To": "eve@example.com"}},
    {"files": (File("a\r\nb.txt", "text/plain", b"x"),)},
    {"message_id": "<a@b>\r\nX: y"},
]


@pytest.mark.parametrize("changes", INJECTIONS, ids=str)
def test_nothing_that_adds_a_header_or_a_recipient_goes_out(
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    stand_in: StandIn,
    changes: dict[str, object],
) -> None:
    set_up(monkeypatch, "postmark", stand_in.url("postmark"))
    outcome = provider("postmark", settings).send(email(**changes), key())
    assert outcome.kind is OutcomeKind.PERMANENT
    assert stand_in.taken == []


def test_files_and_odd_text_arrive_unchanged(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "postmark", stand_in.url("postmark"))
    sending = provider("postmark", settings)
    content = "bär\r\n\x00".encode()
    files = (
        File("Grüße.csv", "text/csv; charset=utf-8", content),
        File("logo.png", "image/png", b"\x89PNG", "logo"),
    )
    message = email(
        html='<img src="cid:logo">',
        files=files,
        sender='"Prüfung, Team" <ops@example.com>',
        to=("Ada Ø <ada@example.com>",),
    )
    assert sending.send(message, key()).kind is OutcomeKind.ACCEPTED
    sending.close()
    sent = stand_in.taken[0].json()
    assert sent["Subject"] == "Grüße 🎉"
    assert sent["To"] == "Ada Ø <ada@example.com>"
    assert sent["From"] == '"Prüfung, Team" <ops@example.com>'
    first, second = sent["Attachments"]
    assert base64.b64decode(first["Content"]) == content
    assert (first["Name"], second["ContentID"]) == ("Grüße.csv", "cid:logo")


def test_amazon_shows_every_copy_the_same_people_and_has_one_recipient(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "ses", stand_in.url("ses"))
    sending = provider("ses", settings)
    message = email(to=("Ada <ada@example.com>", "ben@example.com"), cc=("cy@example.com",))
    assert sending.send(message, key()).kind is OutcomeKind.ACCEPTED
    sending.close()
    sent = stand_in.taken[0].json()
    assert sent["Destination"] == {"ToAddresses": ["ada@example.com"]}
    raw = base64.b64decode(sent["Content"]["Raw"]["Data"])
    mime = message_from_bytes(raw, policy=default_policy)
    assert mime["To"] == "Ada <ada@example.com>, ben@example.com"
    assert mime["Cc"] == "cy@example.com"
    assert mime["Message-ID"] == message.message_id


def test_other_services_name_the_one_recipient_only(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "mailgun", stand_in.url("mailgun"))
    sending = provider("mailgun", settings)
    sending.send(email(to=("ada@example.com", "ben@example.com")), key())
    sending.close()
    assert "ben@example.com" not in stand_in.taken[0].text


def test_threads_have_connections_of_their_own_and_use_them_again(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "postmark", stand_in.url("postmark"))
    sending = provider("postmark", settings)

    def send(_number: int) -> OutcomeKind:
        return sending.send(email(), key()).kind

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(send, range(80))) == {OutcomeKind.ACCEPTED}
    sending.close()
    assert len(stand_in.taken) == 80
    assert len({one.client for one in stand_in.taken}) <= 4
    # After close it can be used again.
    assert sending.send(email(), key()).kind is OutcomeKind.ACCEPTED
    sending.close()


def test_amazons_client_is_shared_by_the_threads(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "ses", stand_in.url("ses"))
    sending = provider("ses", settings)
    with ThreadPoolExecutor(4) as pool:
        kinds = set(pool.map(lambda _: sending.send(email(), key()).kind, range(20)))
    sending.close()
    assert kinds == {OutcomeKind.ACCEPTED}
    assert sending.send(email(), key()).kind is OutcomeKind.ACCEPTED
    sending.close()


def test_an_sms_is_refused(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    set_up(monkeypatch, "postmark")
    sms = Sms("+12025550143", "Hello")
    assert provider("postmark", settings).send(sms, key()).kind is OutcomeKind.PERMANENT


def test_neither_django_nor_anymail_is_loaded_before_a_route_needs_it() -> None:
    program = (
        "import sys; import dashboard.providers.registry;"
        "import dashboard.dispatch.reports.webhook_routes as w;"
        "from dashboard.settings import load_settings;"
        "assert w.reporter_for('nonsense', load_settings(_env_file=None, secret_key='x')) is None;"
        "assert w.reporter_for('postmark', load_settings(_env_file=None, secret_key='x')) is None;"
        "sys.exit(bool({'django', 'anymail', 'boto3'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_empty_email_is_sent_as_it_is(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, stand_in: StandIn
) -> None:
    set_up(monkeypatch, "postmark", stand_in.url("postmark"))
    sending = provider("postmark", settings)
    bare = Email(recipient="ada@example.com", sender="ops@example.com", subject="", html="<p>x</p>")
    assert sending.send(bare, key()).kind is OutcomeKind.ACCEPTED
    sending.close()
    assert stand_in.taken[0].json()["HtmlBody"] == "<p>x</p>"
    assert not stand_in.taken[0].json().get("TextBody")
