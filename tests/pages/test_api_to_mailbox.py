"""A message from the API to the mailbox: what was posted is what arrives, to the last byte."""

import base64
import uuid
from pathlib import Path

from flask.testing import FlaskClient
from sqlalchemy.orm import Session, scoped_session

from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import State
from dashboard.providers.sandbox_mail import load, newest
from dashboard.settings import Settings
from jobs.sender import Sender
from tests.pages.api_client import ApiClient
from tests.providers.test_sandbox import sandbox

REPORT = bytes(range(256)) * 400
LOGO = b"\x89PNG\r\n\x1a\n" + bytes(500)


def base64_of(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_what_was_posted_arrives_to_the_last_byte(
    client: FlaskClient, session: scoped_session[Session], settings: Settings, tmp_path: Path
) -> None:
    own = settings.model_copy(update={"data_dir": tmp_path, "email_provider": "sandbox"})
    own = own.model_copy(update={"attachment_root": str(settings.data_dir / "attachments")})
    posted = ApiClient(client, session()).send(
        to="x@bücher.example",
        cc=["grace@example.com"],
        subject="Grüße 🎉 <script>{{7*7}}</script>",
        text="Grüße\n.\n🎉",
        html='<p>Grüße</p><img src="cid:logo">',
        headers={"List-Unsubscribe": "<https://example.com/u?a=1&b=2>"},
        **{"from": "Programme, Team <team@example.com>"},
        attachments=[
            {
                "filename": "отчёт Q4.pdf",
                "content_type": "application/pdf",
                "content": base64_of(REPORT),
            },
            {
                "filename": "logo.png",
                "content_type": "image/png",
                "content": base64_of(LOGO),
                "inline": True,
                "content_id": "logo",
            },
        ],
    )
    assert posted.status_code == 202
    ids = [posted.json["id"], *posted.json["copies"]]
    with sandbox(tmp_path):
        sender = Sender(own, "w-1")
        sender.work([uuid.UUID(one) for one in ids], "default")
        sender.close()
        captured = [load(tmp_path, one.id) for one in newest(tmp_path)]
    assert {one.summary.envelope.rcpt_to for one in captured} == {
        ("x@xn--bcher-kva.example",),
        ("grace@example.com",),
    }
    for one in captured:
        assert one.summary.subject == "Grüße 🎉 <script>{{7*7}}</script>"
        assert one.summary.sender == '"Programme, Team" <team@example.com>'
        assert one.text.replace("\r\n", "\n").strip() == "Grüße\n.\n🎉"
        assert ("List-Unsubscribe", "<https://example.com/u?a=1&b=2>") in one.headers
        files = {file.filename: file for file in one.files}
        assert files["отчёт Q4.pdf"].content == REPORT
        assert (files["logo.png"].content, files["logo.png"].content_id) == (LOGO, "logo")
        assert one.cc == "grace@example.com"
    session.expire_all()
    states = {session.get(Dispatch, uuid.UUID(one)).state for one in ids}
    assert states <= {State.SENT, State.AWAITING}
