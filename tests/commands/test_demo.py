"""`wireroom demo` shows every state, and only in the sandbox."""

from click.testing import CliRunner
from flask import Flask
from pydantic import SecretStr
from sqlalchemy import func, select
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as process
from dashboard.cli import main
from dashboard.dispatch.models import Dispatch
from dashboard.settings import Settings


def test_the_demo_asks_for_messages_of_both_channels(
    app: Flask, session: scoped_session[Session]
) -> None:
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0, result.output
    found = dict(
        session.execute(select(Dispatch.channel, func.count()).group_by(Dispatch.channel)).all()
    )
    assert found == {"email": 8, "sms": 3}


def test_the_demo_refuses_to_write_to_people(app: Flask, settings: Settings) -> None:
    process.use(settings.model_copy(update={"smtp_url": SecretStr("smtp://mail.example.com")}))
    result = CliRunner().invoke(main, ["demo"])
    process.use(settings)
    assert result.exit_code == 1
    assert "SMTP_URL" in result.output
