"""`wireroom doctor` finds what is wrong, says how to mend it, and shows no secret."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dashboard.commands.doctor import describe
from dashboard.commands.examinations import Finding, Severity, examine
from dashboard.settings import Settings, load_settings
from tests.conftest import Servers

Make = Callable[..., Settings]


@pytest.fixture
def make(servers: Servers, tmp_path: Path) -> Make:
    """Make settings that are in order but for what is given."""

    def make_settings(**given: object) -> Settings:
        right = {
            "_env_file": None,
            "database_url": servers.database_url,
            "redis_url": servers.redis_url,
            "public_base_url": "https://wireroom.example.com",
            "data_dir": tmp_path,
        }
        return load_settings(**{**right, **given})

    return make_settings


def wrong(settings: Settings) -> dict[str, Finding]:
    return {
        finding.subject: finding
        for finding in examine(settings)
        if finding.severity is Severity.ERROR and finding.subject != "migrations"
    }


def test_settings_in_order_have_no_error(make: Make) -> None:
    assert wrong(make()) == {}


@pytest.mark.parametrize(
    ("variable", "given", "says"),
    [
        (
            "DATABASE_URL",
            {"database_url": "postgresql+psycopg://a:s3cret@127.0.0.1:1/x"},
            "refused",
        ),
        ("REDIS_URL", {"redis_url": "redis://:s3cret@127.0.0.1:1/0"}, "refused"),
        ("REDIS_URL", {"redis_url": "nonsense-s3cret"}, "cannot be used"),
        ("SECRET_KEY", {"secret_key": "s3cret"}, "shorter than 32"),
        ("PUBLIC_BASE_URL", {"public_base_url": "wireroom.example.com"}, "not an address"),
        ("SMTP_URL", {"smtp_url": "smtp://a:s3cret@127.0.0.1:1"}, "does not answer"),
        ("SMTP_URL", {"email_provider": "smtp"}, "not set"),
        ("TWILIO_ACCOUNT_SID", {"twilio_account_sid": "s3cret"}, "not AC and 32"),
        ("TWILIO_AUTH_TOKEN", {"twilio_account_sid": "AC" + "0" * 32}, "missing"),
        ("WIREROOM_KINDS", {"kinds": "no_such_module_of_kinds"}, "cannot be imported"),
        ("WIREROOM_ATTACHMENT_ROOT", {"attachment_root": "/no/such/folder"}, "cannot be written"),
        ("SENTRY_DSN", {"sentry_dsn": "https://s3cret"}, "not a DSN"),
    ],
)
def test_each_fault_is_named_by_its_variable_with_a_mend_and_no_secret(
    make: Make, variable: str, given: dict[str, str], says: str
) -> None:
    finding = wrong(make(**given))[variable]

    assert says in finding.text
    assert finding.mend
    if variable != "REDIS_URL" or "://" in given["redis_url"]:
        assert "s3cret" not in finding.text + finding.mend


def test_secrets_that_others_can_read_are_an_error(make: Make, tmp_path: Path) -> None:
    settings = make()
    (tmp_path / "secret_key").chmod(0o644)

    assert "chmod 600" in wrong(settings)["WIREROOM_DATA_DIR"].mend


def test_the_list_of_settings_shows_no_secret(make: Make) -> None:
    settings = make(
        smtp_url="smtp://a:s3cret@localhost",
        twilio_auth_token="s3cret",
        redis_url="redis://:s3cret@localhost/0",
    )
    shown = dict(describe(settings))

    assert shown["SMTP_URL"] == "set"
    assert shown["REDIS_URL"] == "redis://…@localhost/0"
    assert "s3cret" not in "".join(shown.values())
    assert set(shown) == {str(f.validation_alias) for f in Settings.model_fields.values()}


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.endswith("_URL")}
    return subprocess.run(
        [sys.executable, "-m", "dashboard.cli", *arguments],
        env={**own, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_doctor_ends_with_1_when_no_server_runs(tmp_path: Path) -> None:
    done = run("doctor", WIREROOM_DATA_DIR=str(tmp_path))

    assert done.returncode == 1
    assert "ERROR DATABASE_URL: It is not set, and no embedded server runs" in done.stdout
    assert "Run: wireroom up" in done.stdout


def test_doctor_tells_a_wrong_setting_by_name(tmp_path: Path) -> None:
    done = run("doctor", WIREROOM_DATA_DIR=str(tmp_path), WIREROOM_STALL_MINUTES="s3cret")

    assert done.returncode == 1
    assert "WIREROOM_STALL_MINUTES" in done.stdout
    assert "s3cret" not in done.stdout + done.stderr


def test_a_command_with_wrong_settings_ends_with_2_and_a_sentence(tmp_path: Path) -> None:
    done = run("migrate", WIREROOM_DATA_DIR=str(tmp_path), WIREROOM_STALL_MINUTES="soon")

    assert done.returncode == 2
    assert "WIREROOM_STALL_MINUTES" in done.stderr
    assert "Traceback" not in done.stderr
