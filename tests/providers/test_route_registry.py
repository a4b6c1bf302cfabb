"""Routes by name: built once, and a wrong setting is a sentence that names its variable."""

from pathlib import Path
from typing import Any

import pytest

from dashboard.providers.base import OutcomeKind, Sms
from dashboard.providers.registry import RouteInvalid, close_all, email_route, route, sms_route
from dashboard.settings import Settings, load_settings
from tests.providers.factories import email, key


def _settings(data_dir: Path, **given: Any) -> Settings:
    return load_settings(data_dir=data_dir, secret_key="x", **given)


def test_a_route_is_built_once_for_the_same_settings(tmp_path: Path) -> None:
    settings = _settings(tmp_path)
    assert email_route(settings) is email_route(_settings(tmp_path))
    assert email_route(settings).name == "sandbox"
    other = _settings(tmp_path, smtp_url="smtp://relay.example")
    assert email_route(other).name == "smtp"
    built = email_route(settings)
    close_all()
    assert email_route(settings) is not built


def test_the_null_route_takes_everything(tmp_path: Path) -> None:
    settings = _settings(tmp_path, email_provider="null", sms_provider="null")
    one = key()
    outcome = email_route(settings).send(email(), one)
    assert (outcome.kind, outcome.provider_message_id) == (OutcomeKind.ACCEPTED, one.tracking)
    assert sms_route(settings).send(Sms("+12025550143", "hi"), one).kind is OutcomeKind.ACCEPTED
    assert email_route(settings).probe().kind is OutcomeKind.ACCEPTED


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"email_provider": "pigeon"}, "WIREROOM_EMAIL_PROVIDER is 'pigeon'.*null, sandbox, smtp"),
        ({"email_provider": "smtp"}, "SMTP_URL is missing"),
        ({"smtp_url": "http://hunter2.example"}, "SMTP_URL"),
        ({"smtp_url": "smtps://h?ca=/no/such/file"}, "ca file of SMTP_URL"),
    ],
)
def test_a_wrong_setting_is_a_sentence(tmp_path: Path, given: dict[str, str], words: str) -> None:
    with pytest.raises(RouteInvalid, match=words) as caught:
        email_route(_settings(tmp_path, **given))
    assert "hunter2" not in str(caught.value)


def test_an_unknown_sms_route_names_its_own_variable(tmp_path: Path) -> None:
    with pytest.raises(RouteInvalid, match="WIREROOM_SMS_PROVIDER"):
        route("pigeon", _settings(tmp_path), channel="sms")
