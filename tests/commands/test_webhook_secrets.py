"""Production starts only where the reports of its routes can be checked; doctor says what is so."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from dashboard.app import create_app
from dashboard.cli import main
from dashboard.commands import supervised
from dashboard.commands.examinations import Severity, examine
from dashboard.providers.webhook_secrets import require_secrets, secret_problems
from dashboard.settings import Environment, Settings, SettingsInvalid
from jobs import worker
from tests.conftest import Servers

HOOK = "https://wireroom.example.com/webhooks/twilio/status"
POSTMARK_MISSING = "ANYMAIL_POSTMARK_WEBHOOK_SECRET (or ANYMAIL_WEBHOOK_SECRET for all services)"


@pytest.fixture
def production(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of an installation whose email goes out by Postmark, without a webhook secret."""
    monkeypatch.setenv("ANYMAIL_POSTMARK_SERVER_TOKEN", "a token")
    given = {"environment": Environment.PRODUCTION, "email_provider": "anymail:postmark"}
    return settings.model_copy(update=given)


def test_no_process_of_production_starts_without_the_secret(
    production: Settings, tmp_path: Path
) -> None:
    with pytest.raises(SettingsInvalid, match="ANYMAIL_POSTMARK_WEBHOOK_SECRET") as refused:
        create_app(production)
    assert POSTMARK_MISSING in str(refused.value)
    with pytest.raises(SettingsInvalid, match="ANYMAIL_POSTMARK_WEBHOOK_SECRET"):
        supervised.plan(tmp_path, workers=1, demo=False)(production, 8000)


def test_it_starts_with_the_secret_and_elsewhere_without(
    production: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_secrets(production.model_copy(update={"environment": Environment.STAGING}))
    monkeypatch.setenv("ANYMAIL_WEBHOOK_SECRET", "hooks:a long password")
    require_secrets(production)
    assert secret_problems(production) == []


def test_twilios_webhook_needs_the_token(settings: Settings) -> None:
    given = {"environment": Environment.PRODUCTION, "twilio_webhook_url": HOOK}
    production = settings.model_copy(update=given)
    with pytest.raises(SettingsInvalid, match="TWILIO_AUTH_TOKEN"):
        require_secrets(production)
    require_secrets(production.model_copy(update={"twilio_auth_token": SecretStr("a token")}))


def environment_of(servers: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in {
        "WIREROOM_ENV": "production",
        "WIREROOM_DATA_DIR": str(tmp_path),
        "WIREROOM_EMAIL_PROVIDER": "anymail:postmark",
        "ANYMAIL_POSTMARK_SERVER_TOKEN": "a token",
        "DATABASE_URL": servers.database_url,
        "REDIS_URL": servers.redis_url,
        "PUBLIC_BASE_URL": "https://wireroom.example.com",
        "SECRET_KEY": "k" * 40,
    }.items():
        monkeypatch.setenv(name, value)


def test_the_web_server_ends_with_2_and_a_sentence(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment_of(servers, monkeypatch, tmp_path)
    ended = CliRunner().invoke(main, ["web", "--port", "1"])
    assert ended.exit_code == 2
    assert POSTMARK_MISSING in ended.output


def test_a_worker_ends_with_2_and_a_sentence(
    production: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dashboard.settings._used", [production])
    assert worker.main(["default"]) == 2
    assert POSTMARK_MISSING in capsys.readouterr().err


def test_doctor_says_so_and_how_bad_it_is(production: Settings) -> None:
    for environment, severity in (
        (Environment.PRODUCTION, Severity.ERROR),
        (Environment.DEVELOPMENT, Severity.WARNING),
    ):
        found = examine(production.model_copy(update={"environment": environment}))
        [finding] = [one for one in found if one.subject == "webhooks"]
        assert finding.severity is severity
        assert "ANYMAIL_POSTMARK_WEBHOOK_SECRET" in finding.text
