"""`wireroom send-email`, `send-sms` and `show`, in-process on real servers."""

import hashlib
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from flask import Flask
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as current_settings
from dashboard.access.models import Source
from dashboard.cli import main
from dashboard.dispatch.files.carried import files_of
from dashboard.dispatch.files.models import Attachment
from dashboard.dispatch.models import Dispatch, EmailContent, SmsContent
from dashboard.queueing.publish import waiting_jobs
from dashboard.settings import Settings
from tests.factories import make_attempt, make_dispatch, make_source


@pytest.fixture
def run(app: Flask, settings: Settings) -> CliRunner:
    current_settings.use(settings)
    return CliRunner()


def wireroom(run: CliRunner, *arguments: str, stdin: str = "") -> Result:
    return run.invoke(main, list(arguments), input=stdin)


EMAIL = ("send-email", "--to", "ada@example.com", "--subject", "Your talk")


def test_an_email_is_stored_published_and_named_by_its_id(
    run: CliRunner, session: scoped_session[Session], settings: Settings
) -> None:
    result = wireroom(
        run,
        *EMAIL,
        *("--text", "-", "--html", "<p>Hi</p>", "--label", "conference=pycon"),
        *("--target", "invitation:482", "--priority", "high", "--from", "Team <team@example.com>"),
        stdin="Dear Ada",
    )
    assert result.exit_code == 0, result.output
    row = session.get(Dispatch, uuid.UUID(result.output.strip()))
    assert (row.target_type, row.target_id, row.labels) == (
        "invitation",
        "482",
        {"conference": "pycon"},
    )
    assert (row.queue, row.sender, row.requested_by) == (
        "high",
        "Team <team@example.com>",
        "cli:operator",
    )
    content = session.get(EmailContent, row.id)
    assert (content.text, content.html) == ("Dear Ada", "<p>Hi</p>")
    assert waiting_jobs("high", settings) == 1


def test_where_to_watch_it_is_told_beside_the_id_that_scripts_read(
    run: CliRunner, settings: Settings
) -> None:
    address = "https://wireroom.example.com"
    current_settings.use(settings.model_copy(update={"public_base_url": address}))
    result = wireroom(run, *EMAIL, "--text", "Hello")
    assert result.stderr == f"Watch it: {address}/dispatches/{result.stdout.strip()}\n"


def test_messages_that_name_no_source_have_one_of_their_own_made_once(
    run: CliRunner, session: scoped_session[Session]
) -> None:
    for _ in range(2):
        assert wireroom(run, *EMAIL, "--text", "Hello").exit_code == 0
    assert session.scalars(select(Source.name)).all() == ["command-line"]


def test_a_named_source_is_used_and_an_unknown_one_is_not_made(
    run: CliRunner, session: scoped_session[Session]
) -> None:
    make_source(session(), email_from="programme@example.com")
    session.commit()
    known = wireroom(run, *EMAIL, "--text", "Hello", "--source", "programme-site")
    assert session.get(Dispatch, uuid.UUID(known.output.strip())).sender == "programme@example.com"
    unknown = wireroom(run, *EMAIL, "--text", "Hello", "--source", "programme-sight")
    assert unknown.exit_code == 1
    assert "programme-sight" in unknown.output
    assert session.scalar(select(func.count()).select_from(Source)) == 1


def test_files_go_along_byte_for_byte(
    run: CliRunner, session: scoped_session[Session], settings: Settings, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 50
    (tmp_path / "отчёт Q4.pdf").write_bytes(content)
    (tmp_path / "logo.png").write_bytes(b"\x89PNG")
    result = wireroom(
        run,
        *EMAIL,
        *("--html", '<img src="cid:logo">', "--attach", str(tmp_path / "отчёт Q4.pdf")),
        *("--inline", f"{tmp_path / 'logo.png'}:logo"),
    )
    assert result.exit_code == 0, result.output
    row = session.get(Dispatch, uuid.UUID(result.output.strip()))
    report, logo = files_of(session(), row, settings)
    assert (report.filename, report.content_type) == ("отчёт Q4.pdf", "application/pdf")
    assert report.content == content
    assert (logo.content, logo.content_id, logo.content_type) == (b"\x89PNG", "logo", "image/png")
    stored = session.scalars(select(Attachment).where(Attachment.content_type != "image/png")).one()
    assert stored.sha256 == hashlib.sha256(content).hexdigest()


def test_a_text_message_is_stored_with_its_segments(
    run: CliRunner, session: scoped_session[Session]
) -> None:
    result = wireroom(run, "send-sms", "--to", "+12025550143", "--body", "я" * 71)
    assert result.exit_code == 0, result.output
    assert session.get(SmsContent, uuid.UUID(result.output.strip())).segments == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("send-sms", "--to", "0201", "--body", "x"), "to: "),
        ((*EMAIL, "--text", "x", "--send-at", "2026-12-01T09:00:00"), "send_at: "),
        ((*EMAIL, "--text", "x", "--label", "nothing"), "NAME=TEXT"),
        ((*EMAIL, "--text", "x", "--target", "482"), "TYPE:ID"),
        ((*EMAIL, "--text", "x", "--inline", "no-such-file:logo"), "FILE:CID"),
        ((*EMAIL, "--text", "x", "--attach", "no-such-file"), "no-such-file"),
    ],
)
def test_what_cannot_be_accepted_is_named_and_ends_with_2(
    run: CliRunner, session: scoped_session[Session], arguments: tuple[str, ...], said: str
) -> None:
    result = wireroom(run, *arguments)
    assert result.exit_code == 2
    assert said in result.output
    assert session.scalar(select(func.count()).select_from(Dispatch)) == 0


def test_show_tells_the_story(run: CliRunner, session: scoped_session[Session]) -> None:
    row = make_dispatch(session(), subject="Your \x1b[2Jtalk", labels={"day": "2"})
    make_attempt(session(), row, detail="250 ok")
    session.commit()
    result = wireroom(run, "show", str(row.id))
    assert result.exit_code == 0
    assert result.output.startswith(f"email {row.id}: Queued\n")
    assert "ada@example.com" in result.output
    assert "day=2" in result.output
    assert "queued (request by token:test)" in result.output
    assert "attempt 1 on w-1 by smtp: not ended, not handed over: 250 ok" in result.output
    assert "\x1b" not in result.output


@pytest.mark.parametrize("wrong", ["5c0f5f0e-0000-7000-8000-000000000000", "482", "a\nb"])
def test_show_ends_with_1_when_there_is_no_such_dispatch(run: CliRunner, wrong: str) -> None:
    result = wireroom(run, "show", wrong)
    assert result.exit_code == 1
    assert "There is no dispatch" in result.output
