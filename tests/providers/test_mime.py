"""What is rendered comes back: every character of a subject, every byte of a file. Bcc never."""

import email.policy
import re
from email import message_from_bytes
from email.header import decode_header, make_header
from email.message import EmailMessage

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.providers.base import File
from dashboard.providers.mime import Unsendable, render
from tests.providers.factories import email as make_email

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=300)
PDF = File("отчёт Q4.pdf", "application/pdf", bytes(range(256)) * 40)
LOGO = File(
    "logo.png", "image/png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "logo@inline.invalid"
)


def read(content: bytes) -> EmailMessage:
    """What a reader makes of it."""
    message = message_from_bytes(content, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    return message


@given(TEXT)
@settings(max_examples=150, deadline=None)
def test_every_subject_comes_back(subject: str) -> None:
    content = render(make_email(subject=subject)).content
    assert str(read(content)["Subject"]) == subject
    assert max(map(len, content.split(b"\r\n"))) <= 998


@given(TEXT.map(lambda name: name.strip()).filter(bool))
@settings(max_examples=150, deadline=None)
def test_every_file_name_comes_back(name: str) -> None:
    content = render(make_email(files=(File(name, "application/pdf", b"x"),))).content
    (part,) = read(content).iter_attachments()
    assert part.get_filename() == name


@given(TEXT.filter(lambda name: not re.search(r'[<>"\\\s]', name)), st.binary(max_size=2000))
@settings(max_examples=80, deadline=None)
def test_display_names_and_bytes_come_back(name: str, content: bytes) -> None:
    sender = f"{name} <ada@example.com>"
    files = (File("a.bin", "image/png", content),)
    rendered = render(make_email(sender=sender, files=files))
    message = read(rendered.content)
    assert message["From"].addresses[0].addr_spec == "ada@example.com"
    # Not display_name: the library's own reader puts spaces between neighbouring encoded words.
    raw = re.search(rb"^From: (.*?) <ada@example.com>", rendered.content, re.DOTALL | re.MULTILINE)
    shown = raw[1].decode().replace("\r\n", "") if raw else ""
    assert str(make_header(decode_header(shown))).strip('"') == name
    (part,) = message.iter_attachments()
    assert part.get_payload(decode=True) == content


@given(
    st.text(
        st.characters(
            exclude_categories=("Cs",), exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
        ),
        min_size=1,
        max_size=500,
    )
)
@settings(max_examples=150, deadline=None)
def test_every_text_comes_back(text: str) -> None:
    rendered = render(make_email(text=text, html=f"<p>{text}</p>"))
    message = read(rendered.content)
    body = message.get_body(("plain",))
    assert body is not None
    payload = body.get_payload(decode=True)
    assert isinstance(payload, bytes)
    assert payload.decode().replace("\r\n", "\n").removesuffix("\n") == text.removesuffix("\n")
    assert rendered.content.isascii()
    assert b"\n" not in rendered.content.replace(b"\r\n", b"")


def test_text_html_inline_and_attached_files_keep_their_places() -> None:
    message = read(
        render(
            make_email(html='<p>Grüße <img src="cid:logo@inline.invalid"></p>', files=(LOGO, PDF))
        ).content
    )
    assert message.get_content_type() == "multipart/mixed"
    alternative, attached = message.iter_parts()
    plain, related = alternative.iter_parts()
    html, inline = related.iter_parts()
    assert plain.get_content_type() == "text/plain"
    assert related.get_content_type() == "multipart/related"
    assert related.get_param("type") == "text/html"
    assert html.get_content().strip() == '<p>Grüße <img src="cid:logo@inline.invalid"></p>'
    assert inline["Content-ID"] == "<logo@inline.invalid>"
    assert inline.get_payload(decode=True) == LOGO.content
    assert attached.get_filename() == "отчёт Q4.pdf"
    assert attached.get_payload(decode=True) == PDF.content


def test_headers_are_as_given() -> None:
    url = "<https://example.com/unsubscribe/" + "u" * 300 + ">"
    rendered = render(
        make_email(
            to=("Ada Lovelace <ada@bücher.example>", '"Last, First" <bo@example.com>'),
            cc=("cc@example.com",),
            reply_to=("reply@example.com",),
            headers={"List-Unsubscribe": url},
            message_id="<" + "m" * 120 + "@example.com>",
        )
    )
    message = read(rendered.content)
    assert [str(one) for one in message["To"].addresses] == [
        "Ada Lovelace <ada@xn--bcher-kva.example>",
        '"Last, First" <bo@example.com>',
    ]
    assert message["Cc"] == "cc@example.com"
    assert message["Reply-To"] == "reply@example.com"
    assert f"List-Unsubscribe: {url}\r\n".encode() in rendered.content
    assert f"Message-ID: <{'m' * 120}@example.com>\r\n".encode() in rendered.content
    assert message["Date"].datetime is not None
    assert rendered.mail_from == "wireroom@example.com"


@pytest.mark.parametrize(
    "name", ["Bcc", "bcc", "Resent-Bcc", "Subject", "Content-Type", "a b", "x:"]
)
def test_headers_that_only_we_may_write_are_refused(name: str) -> None:
    with pytest.raises(Unsendable):
        render(make_email(headers={name: "eve@example.com"}))


@pytest.mark.parametrize("break_", ["\r\n", "\n", "\r", "\0", "\x1f", "\x7f", "\ud800"])
@pytest.mark.parametrize(
    "field",
    [
        "subject",
        "sender",
        "recipient",
        "to",
        "cc",
        "reply_to",
        "message_id",
        "headers",
        "filename",
        "type",
        "cid",
    ],
)
def test_nothing_can_start_a_second_header_line(field: str, break_: str) -> None:
    value = f"a{break_}Bcc: eve@example.com"
    changes: dict[str, object] = {field: value}
    if field in ("to", "cc", "reply_to"):
        changes = {field: (value,)}
    elif field == "headers":
        changes = {field: {"X-Note": value}}
    elif field == "filename":
        changes = {"files": (File(value, "text/plain", b"x"),)}
    elif field == "type":
        changes = {"files": (File("a", f"text/plain{value}", b"x"),)}
    elif field == "cid":
        changes = {"html": "x", "files": (File("a", "text/plain", b"x", value),)}
    with pytest.raises(Unsendable) as caught:
        render(make_email(**changes))
    assert "eve" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["", "ada", "a@x, b@y", "a b@x.example", "@x", "a@", "a@b@x", "<a@x> b", "a@x\u2028y"],
)
def test_what_is_not_one_address_is_refused(address: str) -> None:
    with pytest.raises(Unsendable):
        render(make_email(recipient=address))


@pytest.mark.parametrize("kind", ["message/rfc822", "multipart/mixed", "nonsense", ""])
def test_files_that_readers_would_unpack_stay_files(kind: str) -> None:
    inner = b"Subject: inner\r\n\r\nhello\r\n"
    (part,) = read(
        render(make_email(files=(File("mail.eml", kind, inner),))).content
    ).iter_attachments()
    assert part.get_content_type() == "application/octet-stream"
    assert part.get_payload(decode=True) == inner


def test_only_addresses_outside_ascii_need_smtputf8() -> None:
    assert not render(make_email(sender="Jürgen <j@bücher.example>")).needs_smtputf8
    assert render(make_email(to=("jürgen@example.com",))).needs_smtputf8
