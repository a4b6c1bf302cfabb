"""The pages of the sandbox: what was captured, byte for byte, and harmless to look at."""

import hashlib
import shutil
from collections.abc import Iterator
from email.message import EmailMessage

import pytest
from flask import Flask
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.permissions import Role
from dashboard.providers.sandbox import TRACKING_HEADER
from dashboard.providers.sandbox_store import capture, mail_folder
from dashboard.settings import Environment, Settings, use
from tests.factories import make_dispatch, make_source
from tests.pages.api_client import ApiClient
from tests.pages.desk import sign_in

Db = scoped_session[Session]
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


@pytest.fixture(autouse=True)
def empty_sandbox(settings: Settings) -> Iterator[None]:
    """Nothing is captured before and after."""
    shutil.rmtree(mail_folder(settings.data_dir), ignore_errors=True)
    yield
    shutil.rmtree(mail_folder(settings.data_dir), ignore_errors=True)


def message(
    settings: Settings, subject: str = "Отчёт 🎉", html: str = "<p>Hello</p>", *, key: str = ""
) -> str:
    """Capture a message with text, HTML, an inline picture and a file; return its id."""
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = subject, "desk@example.com", "ada@example.com"
    if key:
        mail[TRACKING_HEADER] = key
    mail.set_content("Hello in plain words")
    mail.add_alternative(f'{html}<img src="cid:logo@wireroom">', subtype="html")
    mail.get_payload()[1].add_related(PIXEL, "image", "png", cid="<logo@wireroom>")  # type: ignore[union-attr]
    mail.add_attachment(b"%PDF", maintype="application", subtype="pdf", filename="отчёт Q4.pdf")
    return capture(
        settings.data_dir,
        mail_from="desk@example.com",
        rcpt_to=["ada@example.com"],
        content=mail.as_bytes(),
    )


def test_the_list_shows_what_was_captured_newest_first(
    app: Flask, session: Db, settings: Settings
) -> None:
    desk = sign_in(app, session)
    for number in (1, 2):
        message(settings, f"Number {number}")
    text = desk.text("/sandbox")
    assert text.index("Number 2") < text.index("Number 1")
    assert "2 kept" in text


def test_an_empty_sandbox_says_how_to_fill_it(app: Flask, session: Db) -> None:
    assert "wireroom send-email" in sign_in(app, session).text("/sandbox")


def test_a_message_shows_its_parts_headers_and_files(
    app: Flask, session: Db, settings: Settings
) -> None:
    desk = sign_in(app, session)
    text = desk.text(f"/sandbox/{message(settings)}")
    for part in ("Отчёт 🎉", "Hello in plain words", "desk@example.com", "отчёт Q4.pdf"):
        assert part in text
    assert hashlib.sha256(PIXEL).hexdigest() in text
    assert "logo@wireroom" in text


def test_files_and_source_come_back_byte_for_byte(
    app: Flask, session: Db, settings: Settings
) -> None:
    desk = sign_in(app, session)
    path = f"/sandbox/{message(settings)}"
    picture, report = desk.get(f"{path}/files/1"), desk.get(f"{path}/files/2")
    assert (picture.data, report.data) == (PIXEL, b"%PDF")
    assert "UTF-8''%D0%BE%D1%82%D1%87%D1%91%D1%82%20Q4.pdf" in report.headers["Content-Disposition"]
    assert report.headers["Content-Type"] == "application/octet-stream"
    assert report.headers["X-Content-Type-Options"] == "nosniff"
    assert desk.get(f"{path}/source").data.startswith(b"Subject:")
    assert desk.get(f"{path}/files/3").status_code == 404
    assert desk.get(f"{path}/files/0").status_code == 404


def test_the_preview_is_harmless_and_shows_what_came_with_it(
    app: Flask, session: Db, settings: Settings
) -> None:
    hostile = (
        '<script>parent.document.title="owned"</script><img src="http://127.0.0.1:9/px">'
        '<form action="/dispatches/1/resend" method="post"></form>'
        '<meta http-equiv="refresh" content="0;url=//evil.example"><b onclick="x()">Hello</b>'
    )
    desk = sign_in(app, session)
    answer = desk.get(f"/sandbox/{message(settings, html=hostile)}/preview")
    assert "<b>Hello</b>" in answer.text
    assert 'src="data:image/png;base64,' in answer.text
    for harm in ("<script", "127.0.0.1:9", "<form", "refresh", "onclick"):
        assert harm not in answer.text
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert policy.endswith("sandbox")
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"


def test_markup_in_a_subject_stays_text(app: Flask, session: Db, settings: Settings) -> None:
    desk = sign_in(app, session)
    hostile = '"><img src=x onerror=alert(1)>{{7*7}}'
    path = f"/sandbox/{message(settings, hostile)}"
    for page in ("/sandbox", path):
        html = desk.get(page).text
        assert "<img src=x" not in html
        assert "&lt;img src=x" in html
        assert "{{7*7}}" in html


@pytest.mark.parametrize("name", ["../secret_key", "nothing", "%2e%2e%2fsecret_key", "0" * 32])
def test_an_id_that_is_none_is_not_there(app: Flask, session: Db, name: str) -> None:
    assert sign_in(app, session).get(f"/sandbox/{name}").status_code == 404


def test_a_viewer_may_not_read_what_was_captured(app: Flask, session: Db) -> None:
    assert sign_in(app, session, Role.VIEWER).get("/sandbox").status_code == 403


def test_there_is_no_sandbox_page_outside_development(
    app: Flask, session: Db, settings: Settings
) -> None:
    desk = sign_in(app, session)
    use(settings.model_copy(update={"environment": Environment.STAGING}))
    try:
        assert desk.get("/sandbox").status_code == 404
    finally:
        use(settings)


@pytest.mark.parametrize("named", [True, False])
def test_captured_messages_of_another_source_do_not_exist(
    app: Flask, session: Db, settings: Settings, named: bool
) -> None:
    ours, theirs = make_source(session, "ours"), make_source(session, "theirs")
    theirs_row, our_row = make_dispatch(session, source=theirs), make_dispatch(session, source=ours)
    session.commit()
    desk = sign_in(app, session, source=ours)
    api = ApiClient(app.test_client(), session(), source="a third")
    hidden = message(settings, "Theirs", key=f"{theirs_row.id}.1" if named else "")
    shown = message(settings, "Ours", key=f"{our_row.id}.1")

    text = desk.text("/sandbox")
    assert "Ours" in text
    assert "Theirs" not in text
    assert "1 kept" in text
    for part in ("", "/preview", "/source", "/files/1"):
        assert desk.get(f"/sandbox/{hidden}{part}").status_code == 404
        assert desk.get(f"/sandbox/{shown}{part}").status_code == 200
    assert api.get("/sandbox/messages").json == {"messages": []}
    everybody = sign_in(app, session, email="all@example.com")
    assert "2 kept" in everybody.text("/sandbox")
    assert everybody.get(f"/sandbox/{hidden}").status_code == 200
