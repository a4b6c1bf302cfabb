"""The account commands as a person and a script use them."""

import pytest
from click.testing import CliRunner, Result
from sqlalchemy import select
from sqlalchemy.orm import Session

import dashboard.settings as process
from dashboard.access.models import ApiToken, User
from dashboard.access.passwords import matches
from dashboard.access.tokens import find_token
from dashboard.commands import accounts
from dashboard.settings import Settings
from tests.access.house_fixtures import rows

__all__ = ["rows"]

PASSWORD = "correct horse battery"
# What a shell makes of octets that are no UTF-8.
BROKEN = "\udcff\udcfe"
TOO_LONG = ("1e400", "1e300", "nan", "0", "-1", "soon")


@pytest.fixture
def run(settings: Settings, rows: Session, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Run one of the commands on the session's servers."""
    monkeypatch.setenv("DATABASE_URL", settings.database_url)
    monkeypatch.setenv("REDIS_URL", settings.redis_url)
    monkeypatch.setenv("WIREROOM_DATA_DIR", str(settings.data_dir))
    commands = {"user": accounts.user, "token": accounts.token, "setup-link": accounts.setup_link}

    def invoke(command: str, *arguments: str, given: str = "") -> Result:
        return CliRunner().invoke(commands[command], list(arguments), input=given)

    return invoke


def test_a_token_is_alone_on_stdout_and_its_source_is_made(run, rows: Session) -> None:  # type: ignore[no-untyped-def]
    result = run("token", "add", "programme-site", "--name", "site", "--expires-days", "30")

    assert result.exit_code == 0, result.output
    token = find_token(rows, result.stdout.strip())
    assert result.stdout == f"{result.stdout.strip()}\n"
    assert token is not None
    assert token.source.name == "programme-site"
    assert "dispatch:create" in token.permissions
    assert "access:manage" not in token.permissions
    assert 29 < (token.expires_at - token.created_at).days <= 30
    again = run("token", "add", "programme-site", "--permission", "dispatch:list")
    assert find_token(rows, again.stdout.strip()).permissions == ["dispatch:list"]
    assert len({one.source_id for one in rows.scalars(select(ApiToken))}) == 1


def test_a_new_user_gets_a_link_or_a_password(run, rows: Session) -> None:  # type: ignore[no-untyped-def]
    invited = run("user", "invite", "eve@example.com")
    assert invited.stdout.startswith("http://127.0.0.1:8000/invitation/")
    given = run(
        "user", "add", "ada@example.com", "--role", "administrator", "--password-stdin",
        given=PASSWORD + "\n",
    )  # fmt: skip
    assert (given.exit_code, given.stdout) == (0, "")

    typed = run("user", "add", "bob@example.com", given=f"{PASSWORD}\n{PASSWORD}\n")
    assert (typed.exit_code, typed.stdout) == (0, "")

    for email in ("ada@example.com", "bob@example.com"):
        found = rows.scalars(select(User).where(User.email == email)).one()
        assert matches(found.password_hash, PASSWORD)
    listed = run("user", "list").stdout.splitlines()
    assert listed == [
        "ada@example.com\tactive\tadministrator on all sources",
        "bob@example.com\tactive\tviewer on all sources",
        "eve@example.com\tactive\tviewer on all sources",
    ]
    assert run("user", "link", "eve@example.com").stdout.count("/invitation/") == 1


def test_roles_are_given_and_taken(run) -> None:  # type: ignore[no-untyped-def]
    run("token", "add", "site")
    run("user", "invite", "root@example.com", "--role", "administrator")
    run("user", "invite", "eve@example.com", "--role", "viewer", "--source", "site")

    assert run("user", "grant", "eve@example.com", "operator").stdout == "Done.\n"
    assert "nothing was changed" in run("user", "grant", "eve@example.com", "operator").stdout
    assert run("user", "grant", "eve@example.com", "operator", "--remove").stdout == "Done.\n"
    assert "eve@example.com\tactive\tviewer on site" in run("user", "list").stdout
    assert run("user", "off", "eve@example.com").stdout == "Done.\n"
    assert "eve@example.com\toff" in run("user", "list").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("user", "add", "nonsense"), "not an email address"),
        (("user", "invite", "nonsense"), "not an email address"),
        (("user", "invite", "root@example.com"), "already"),
        (("user", "invite", "x@example.com", "--source", "none"), "no source of this name"),
        (("user", "add", "x@example.com", "--password-stdin"), "12 characters"),
        (("user", "grant", "none@example.com", "viewer"), "no user with this email"),
        (("user", "grant", "root@example.com", "administrator", "--remove"), "last administrator"),
        (("user", "off", "root@example.com"), "last administrator"),
    ],
)
def test_a_mistake_is_a_sentence_and_exit_code_1(run, arguments, words: str) -> None:  # type: ignore[no-untyped-def]
    run("user", "invite", "root@example.com", "--role", "administrator")

    result = run(*arguments, given="short\n")

    assert result.exit_code == 1
    assert words in result.stderr
    assert run("user", "list").stdout == (
        "root@example.com\tactive\tadministrator on all sources\n"
    )


def test_the_setup_link_is_printed_until_there_is_an_administrator(run) -> None:  # type: ignore[no-untyped-def]
    first = run("setup-link")
    assert "http://127.0.0.1:8000/setup/" in first.stdout
    run("user", "invite", "root@example.com", "--role", "administrator")

    second = run("setup-link")

    assert (second.exit_code, second.stdout) == (0, "")
    assert "There is an administrator" in second.stderr


def test_a_database_that_is_away_is_a_sentence(run, settings: Settings) -> None:  # type: ignore[no-untyped-def]
    away = "postgresql+psycopg://nobody:pw@127.0.0.1:1/none"
    process.use(settings.model_copy(update={"database_url": away}))

    result = run("user", "list")
    process.use(settings)

    assert result.exit_code == 1
    assert "wireroom doctor" in result.stderr
    assert "pw" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("token", "add", BROKEN),
        ("token", "add", "two\nlines"),
        ("token", "add", "x" * 5000),
        ("token", "add", "site", "--name", BROKEN),
        *(("token", "add", "site", "--expires-days", days) for days in TOO_LONG),
        ("user", "add", "eve@example.com", "--name", BROKEN),
        ("user", "add", "eve@example.com", "--source", BROKEN),
        ("user", "invite", "eve@example.com", "--name", "\u202eevil"),
        ("user", "grant", "eve@example.com", "viewer", "--source", BROKEN),
    ],
    ids=lambda arguments: ascii(arguments)[:60],
)
def test_a_broken_argument_ends_with_2_and_makes_nothing(  # type: ignore[no-untyped-def]
    run, rows: Session, arguments: tuple[str, ...]
) -> None:
    result = run(*arguments, given=PASSWORD + "\n")

    assert result.exit_code == 2, result.output
    assert isinstance(result.exception, SystemExit)
    assert "Error: Invalid value for" in result.stderr
    assert rows.scalars(select(ApiToken)).all() == []
    assert rows.scalars(select(User)).all() == []
