"""Which webhook requests of email services are believed: fresh, signed, of the right form."""

from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as process
from dashboard.dispatch.states import State
from dashboard.providers.anymail_esps import ESPS
from dashboard.providers.anymail_settings import webhook_problems
from dashboard.settings import Settings
from tests.pages.esp_reports import REPORTING, all_configured, events_of, known, read, reports
from tests.pages.esp_signing import sendgrid_by_key, sign
from tests.providers.esp_settings import SENDGRID_KEY, public_part, set_up


@pytest.fixture(autouse=True)
def _services(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with all_configured(settings, monkeypatch):
        yield


@pytest.mark.parametrize("esp", REPORTING)
def test_a_signature_of_somebody_else_is_refused(
    client: FlaskClient, session: scoped_session[Session], esp: str
) -> None:
    case = next(one for one in events_of(esp).values() if not one.get("refused"))
    row = known(session, esp, case["id"], State(case["from"]))
    forged = sign(esp, case["body"], case.get("headers"), tamper="bad_signature")
    assert forged.post(client).status_code == 403
    bare = client.post(f"/webhooks/email/{esp}", data=forged.body, content_type="application/json")
    assert bare.status_code in (401, 403)
    assert read(session, row).state is State(case["from"])
    assert reports(session) == []


HOSTILE = {
    "empty": b"",
    "a scalar": b"42",
    "nested 3,000 deep": b"[" * 3000 + b"]" * 3000,
    "objects 3,000 deep": b'{"a":' * 3000 + b"1" + b"}" * 3000,
    "a huge number": b'{"a": ' + b"9" * 5000 + b"}",
    "not utf-8": b"\xff\xfe\x00",
    "a list of scalars": b"[1, 2]",
    "half": b'{"RecordType": "Deliv',
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("esp", REPORTING)
def test_what_is_no_event_is_refused_even_with_a_good_signature(
    client: FlaskClient, session: scoped_session[Session], esp: str, name: str
) -> None:
    response = (
        sign(esp, HOSTILE[name]).post(client)
        if esp != "mandrill"
        else client.post(
            "/webhooks/email/mandrill", data=HOSTILE[name], content_type="application/json"
        )
    )
    if name == "a list of scalars" and response.status_code == 204:
        # The envelope is right; each event of it is kept as unreadable.
        assert {one.event for one in reports(session)} == {"other"}
        return
    assert 400 <= response.status_code < 500
    assert b"Traceback" not in response.data
    assert reports(session) == []


@pytest.mark.parametrize("esp", REPORTING)
def test_a_form_where_json_belongs_is_refused(client: FlaskClient, esp: str) -> None:
    signed = sign("postmark", b"a=b&c=d")
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    response = client.post(
        f"/webhooks/email/{esp}", data=signed.body, headers={**signed.headers, **kind}
    )
    assert 400 <= response.status_code < 500


@pytest.mark.parametrize("esp", ["mailgun", "ses"])
def test_old_signatures_are_refused(
    client: FlaskClient, session: scoped_session[Session], esp: str
) -> None:
    case = events_of(esp)["delivery" if esp == "ses" else "delivered"]
    row = known(session, esp, case["id"])
    for ago in (25 * 3600, -25 * 3600):
        old = sign(esp, case["body"], case.get("headers"), ago=ago)
        assert old.post(client).status_code == 403
    assert read(session, row).state is State.AWAITING
    late = sign(esp, case["body"], case.get("headers"), ago=23 * 3600)
    assert late.post(client).status_code == 204


def test_sendgrids_signature_is_enough_and_grows_old(
    client: FlaskClient, session: scoped_session[Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    set_up(monkeypatch, "sendgrid", TRACKING_WEBHOOK_VERIFICATION_KEY=public_part(SENDGRID_KEY))
    case = events_of("sendgrid")["category_as_string"]
    row = known(session, "sendgrid", case["id"])
    foreign = ec.generate_private_key(ec.SECP256R1())
    assert sendgrid_by_key(case["body"], key=foreign).post(client).status_code == 403
    assert sendgrid_by_key(case["body"], ago=25 * 3600).post(client).status_code == 403
    assert sign("sendgrid", case["body"]).post(client).status_code == 403
    assert read(session, row).state is State.AWAITING
    assert sendgrid_by_key(case["body"]).post(client).status_code == 204
    assert read(session, row).state is State.SUCCEEDED


def test_basic_auth_is_asked_for_where_it_is_missing(client: FlaskClient) -> None:
    response = sign("brevo", {}, tamper="no_auth").post(client)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize("esp", sorted(set(REPORTING) - {"unisender_go"}))
def test_without_a_secret_nothing_is_believed(
    client: FlaskClient,
    session: scoped_session[Session],
    monkeypatch: pytest.MonkeyPatch,
    esp: str,
) -> None:
    for name in (*ESPS[esp].secrets, "WEBHOOK_SECRET"):
        monkeypatch.delenv(ESPS[esp].variable(name), raising=False)
    monkeypatch.delenv("ANYMAIL_WEBHOOK_SECRET")
    case = next(iter(events_of(esp).values()))
    response = sign(esp, case["body"], case.get("headers")).post(client)
    assert response.status_code == 503
    assert reports(session) == []
    settings = process.current().model_copy(update={"email_provider": f"anymail:{esp}"})
    [problem] = webhook_problems(settings)
    assert f"ANYMAIL_{esp.upper()}_" in problem


def test_what_is_configured_is_no_problem(settings: Settings) -> None:
    for route in ("anymail:postmark", "smtp", "sandbox", "anymail:ses"):
        assert webhook_problems(settings.model_copy(update={"email_provider": route})) == []
    [problem] = webhook_problems(settings.model_copy(update={"email_provider": "anymail:x"}))
    assert "Available" in problem


def test_probes_are_answered_and_unknown_services_are_not_found(client: FlaskClient) -> None:
    assert client.head("/webhooks/email/postmark").status_code == 200
    assert client.get("/webhooks/email/unisender_go").status_code == 200
    for unknown in ("nonsense", "scaleway", "..", "amazon_ses"):
        assert client.post(f"/webhooks/email/{unknown}", data=b"{}").status_code in (403, 404)


def test_a_large_body_is_not_read(client: FlaskClient) -> None:
    assert sign("postmark", b"x" * (2 * 1024 * 1024 + 1)).post(client).status_code == 413
