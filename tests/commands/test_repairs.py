"""`wireroom reconcile` on a real situation, in-process on real servers."""

from datetime import timedelta

import pytest
from click.testing import CliRunner
from flask import Flask
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as current_settings
from dashboard.cli import main
from dashboard.database import database_now
from dashboard.dispatch.states import State
from dashboard.settings import Settings, load_settings
from tests.factories import make_dispatch


def test_a_round_repairs_what_is_overdue_and_says_so(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    current_settings.use(settings)
    then = database_now(session) - timedelta(days=4)
    row = make_dispatch(session, state=State.AWAITING, finished_at=then)
    session.commit()

    result = CliRunner().invoke(main, ["reconcile"])

    assert (result.exit_code, result.stdout.splitlines()[-1]) == (
        0,
        "Found 1, repaired 1, skipped 0.",
    )
    session.refresh(row)
    assert row.state is State.UNCONFIRMED


def test_without_a_database_it_says_so_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    away = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    current_settings.use(load_settings(_env_file=None, database_url=away, secret_key="x"))
    result = CliRunner().invoke(main, ["reconcile"])
    current_settings.use(settings)
    assert result.exit_code == 1
    assert "PostgreSQL cannot be used" in result.stderr
    assert "Traceback" not in result.stderr
