"""The examples do what they say: they are run, over a real socket where they speak HTTP."""

import runpy
import shutil
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session, scoped_session
from werkzeug.serving import make_server

from dashboard.dispatch.models import Dispatch
from tests.factories import make_source
from tests.pages.api_client import ApiClient

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


@pytest.fixture
def address(app: Flask) -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_host_application_stores_talk_and_email_together_or_neither(
    database: Engine, session: scoped_session[Session]
) -> None:
    example = runpy.run_path(str(EXAMPLES / "in_your_transaction.py"))
    make_source(session(), example["SOURCE"])
    session.commit()
    example["Base"].metadata.create_all(database)
    try:
        with Session(database) as site:
            example["accept_talk"](site, "Queues", "ada@example.com")
            site.rollback()
            talk = example["accept_talk"](site, "Queues", "ada@example.com")
            site.commit()
            talk_id = str(talk.id)
    finally:
        example["Base"].metadata.drop_all(database)
    assert session.scalars(select(Dispatch.target_id)).all() == [talk_id]


def test_a_message_over_http_goes_out_once_however_often_it_is_handed_over(
    address: str, app: Flask, session: scoped_session[Session]
) -> None:
    token = ApiClient(app.test_client(), session()).token
    command = [sys.executable, str(EXAMPLES / "over_http.py"), address, "ada@example.com"]
    said = [
        subprocess.run(command, input=token, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert said[0] == said[1]
    assert said[0].endswith(" queued\n")
    assert session.get(Dispatch, uuid.UUID(said[0].split()[0])) is not None


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_hands_over_a_message_and_asks_for_it(
    address: str, app: Flask, session: scoped_session[Session]
) -> None:
    token = ApiClient(app.test_client(), session()).token
    command = [str(EXAMPLES / "send.sh"), address, token, "ada@example.com"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert '"recipient":"ada@example.com"' in result.stdout
    assert session.scalar(select(func.count()).select_from(Dispatch)) == 1
