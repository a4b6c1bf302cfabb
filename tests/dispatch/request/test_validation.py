"""What an untrusted request may say, and that each refusal names its field."""

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.dispatch.request.addresses import (
    AddressRefused,
    ascii_address,
    parse_address,
    parse_number,
    parse_sms_sender,
)
from dashboard.dispatch.request.idempotency import body_hash, check_key
from dashboard.dispatch.request.json_body import TEXT_OCTETS, parse_object
from dashboard.dispatch.request.requests import EmailRequest, InvalidRequest, NewFile, SmsRequest
from dashboard.dispatch.request.validation import Limits, parse_request
from dashboard.providers import mime
from dashboard.providers.base import Email
from dashboard.queueing.names import Queue

EMAIL = {"channel": "email", "to": "ada@example.com", "subject": "Your talk", "text": "Hello"}
SMS = {"channel": "sms", "to": "+12025550143", "body": "Hello"}
FILE = {"filename": "a.pdf", "content_type": "application/pdf", "content": "YWJj"}


def email(**fields: object) -> EmailRequest:
    request = parse_request({**EMAIL, **fields})
    assert isinstance(request, EmailRequest)
    return request


def sms(**fields: object) -> SmsRequest:
    request = parse_request({**SMS, **fields})
    assert isinstance(request, SmsRequest)
    return request


LIMITS = Limits()


def refused(values: dict[str, Any], limits: Limits = LIMITS) -> dict[str, str]:
    with pytest.raises(InvalidRequest) as caught:
        parse_request(values, limits)
    return {problem.field: problem.message for problem in caught.value.problems}


# --- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "normalised"),
    [
        ("ada@example.com", "ada@example.com"),
        ("Ada.Lovelace+Ops@Example.COM", "ada.lovelace+ops@example.com"),
        ("x@bücher.example", "x@xn--bcher-kva.example"),
        ("x@xn--bcher-kva.example", "x@xn--bcher-kva.example"),
        ("x@BÜCHER.example", "x@xn--bcher-kva.example"),
        ("o'neil@example.com", "o'neil@example.com"),
    ],
)
def test_an_address_is_kept_as_given_and_found_by_one_form(given: str, normalised: str) -> None:
    address = parse_address(given)

    assert (address.address, address.normalised) == (given, normalised)


@pytest.mark.parametrize(
    "given",
    [
        *("", "ada", "ada@", "@example.com", "ada@example", "ada@localhost", "a b@example.com"),
        *("a@example.com, b@example.com", "a@example.com;b@example.com", "<a@example.com>"),
        *("Ada <ada@example.com>", "a..b@example.com", "a@exa_mple..com", "a@-x.example"),
        *("a@xn--ram--t-k1.com", '"a b"@example.com', "a@[127.0.0.1]", "a@example.com.", "a@@b.de"),
        *(
            "jörg@example.com",
            "a@exam\u202eple.com",
            "a\u200f@example.com",
            "x" * 65 + "@b.example",
        ),
    ],
)
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(AddressRefused):
        parse_address(given)


def test_a_non_ascii_local_part_needs_a_route_that_carries_it() -> None:
    with pytest.raises(AddressRefused, match="before the @"):
        parse_address("jörg@example.com")

    assert parse_address("jörg@example.com", smtputf8=True).normalised == "jörg@example.com"


def test_254_octets_are_an_address_and_255_are_not() -> None:
    domain = ".".join([*["d" * 60] * 3, "com.de"])
    longest = f"{'a' * 64}@{domain}"
    assert len(longest) == 254
    assert parse_address(longest).address == longest

    with pytest.raises(AddressRefused, match="255 octets"):
        parse_address(f"{'a' * 64}@d{domain}")


def test_a_huge_address_is_refused_fast() -> None:
    started = time.monotonic()

    assert "to" in refused({**EMAIL, "to": "a" * 100_000 + "@example.com"})
    assert "to" in refused({**EMAIL, "to": "a@" + "b." * 50_000 + "com"})
    assert time.monotonic() - started < 0.5


@pytest.mark.parametrize(
    ("given", "header"),
    [
        ("programme@example.com", "programme@example.com"),
        ("Programme <programme@example.com>", "Programme <programme@example.com>"),
        ('"Lovelace, Ada" <a@example.com>', '"Lovelace, Ada" <a@example.com>'),
        ("Lovelace, Ada <a@example.com>", '"Lovelace, Ada" <a@example.com>'),
        ("Zoë 🎉 <a@example.com>", "Zoë 🎉 <a@example.com>"),
        ('Ada "Countess" L. <a@example.com>', '"Ada \\"Countess\\" L." <a@example.com>'),
    ],
)
def test_a_sender_may_have_a_display_name(given: str, header: str) -> None:
    request = email(**{"from": given})

    assert request.sender == header
    mime.render(Email(recipient="b@example.com", sender=request.sender, subject="x"))


@pytest.mark.parametrize("given", ["+12025550143", "+491711234567", "+1234567", "+" + "9" * 15])
def test_numbers_in_e164_form(given: str) -> None:
    assert parse_number(given) == given


@pytest.mark.parametrize(
    "given",
    [
        *("", "12025550143", "+02025550143", "+1 202 555 0143", "+1-202-555-0143", "+123456"),
        *(
            "+" + "9" * 16,
            "tel:+12025550143",
            "whatsapp:+12025550143",
            "+1\u0662\u0660\u0662\u0665\u0665\u0665\u0660",
            "+1FLOWERS",
        ),
        *("+12025550143\n", "+12025550143,+12025550144", "\uff0b12025550143"),
    ],
)
def test_what_is_no_e164_number_is_refused(given: str) -> None:
    with pytest.raises(AddressRefused, match=r"E\.164"):
        parse_number(given)
    assert "to" in refused({**SMS, "to": given})


@pytest.mark.parametrize("given", ["+12025550143", "12345", "WIREROOM", "MG12", "MG" + "0a" * 16])
def test_senders_of_text_messages(given: str) -> None:
    assert parse_sms_sender(given) == given


@pytest.mark.parametrize("given", ["1234567890123", "A" * 12, "Wire room!", ""])
def test_what_cannot_send_a_text_message(given: str) -> None:
    with pytest.raises(AddressRefused):
        parse_sms_sender(given)


def test_an_ascii_address_is_left_alone_and_an_international_one_encoded() -> None:
    assert ascii_address("Ada@Example.com") == "Ada@Example.com"
    assert ascii_address("x@bücher.example") == "x@xn--bcher-kva.example"
    assert ascii_address("x@faß.example") == "x@xn--fa-hia.example"


# --- whole requests ---------------------------------------------------------------------------


def test_a_full_email_reads_as_it_was_given() -> None:
    request = email(
        **{
            "from": "Programme <programme@example.com>",
            "to": ["ada@example.com", "bob@example.com"],
            "cc": "carl@example.com",
            "bcc": ["dora@example.com"],
            "reply_to": "Help <help@example.com>",
            "html": "<p>Hello</p>",
            "headers": {"X-Campaign": "spring", "List-Unsubscribe": "<https://example.com/u>"},
            "attachments": [FILE],
            "target": {"type": "invitation", "id": "482"},
            "labels": {"conference": "pycon-2027"},
            "kind": "speakers/invitation",
            "send_at": "2026-12-01T09:00:00+02:00",
            "valid_for_seconds": 3600,
            "priority": "bulk",
        }
    )

    assert [one.address for one in request.recipients] == [
        *("ada@example.com", "bob@example.com", "carl@example.com", "dora@example.com")
    ]
    assert request.reply_to == ("Help <help@example.com>",)
    assert request.headers["X-Campaign"] == "spring"
    assert request.files == (NewFile("a.pdf", "application/pdf", b"abc"),)
    assert request.common.send_at == datetime(2026, 12, 1, 7, tzinfo=UTC)
    assert request.common.valid_for == timedelta(hours=1)
    assert request.common.queue is Queue.BULK
    assert request.common.kind == "speakers/invitation"
    assert (request.common.target_type, request.common.target_id) == ("invitation", "482")


def test_a_text_message_is_composed_and_counted() -> None:
    request = sms(body="e\u0301" * 70, **{"from": "WIREROOM", "media_url": ["https://a.example/x"]})

    assert request.body == "é" * 70
    assert request.segments.count == 1
    assert request.media_urls == ("https://a.example/x",)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"channel": "fax"}, "channel"),
        ({"channel": None}, "channel"),
        ({"to": None}, "to"),
        ({"to": []}, "to"),
        ({"to": 5}, "to"),
        ({"to": ["a@example.com", 5]}, "to[1]"),
        ({"to": ["a@example.com", "b@"]}, "to[1]"),
        ({"to": "a@example.com\nBcc: eve@example.com"}, "to"),
        ({"to": [f"a{n}@example.com" for n in range(51)]}, "to"),
        ({"to": [f"a{n}@example.com" for n in range(50)], "cc": ["b@example.com"]}, "to"),
        ({"cc": ["ADA@example.com"]}, "to"),
        ({"subject": None}, "subject"),
        ({"subject": "x" * 999}, "subject"),
        ({"subject": "é" * 500}, "subject"),
        ({"subject": 7}, "subject"),
        ({"text": ""}, "text"),
        ({"text": None}, "text"),
        ({"text": ["x"]}, "text"),
        ({"from": "nobody"}, "from"),
        ({"from": "A\r\nB <a@example.com>"}, "from"),
        ({"from": "A" * 301 + " <a@example.com>"}, "from"),
        ({"reply_to": ["x"]}, "reply_to[0]"),
        ({"headers": []}, "headers"),
        ({"headers": {"X Y": "1"}}, "headers"),
        ({"headers": {"X-Y\r\nBcc": "1"}}, "headers"),
        ({"headers": {"X-Ü": "1"}}, "headers"),
        ({"headers": {"X-Y": "a\r\nBcc: eve@example.com"}}, "headers.X-Y"),
        ({"headers": {"X-Y": 5}}, "headers.X-Y"),
        ({"headers": {"X-Y": "w" * 998}}, "headers.X-Y"),
        ({"headers": {"X-Y": "1", "x-y": "2"}}, "headers.x-y"),
        ({"kind": "Bad Kind"}, "kind"),
        ({"args": [1]}, "args"),
        ({"target": "invitation"}, "target"),
        ({"target": {"type": "invitation"}}, "target.id"),
        ({"target": {"type": "invitation", "id": 482}}, "target.id"),
        ({"target": {"type": "x", "id": "y" * 201}}, "target.id"),
        ({"target": {"type": "x", "id": "y", "colour": "z"}}, "target.colour"),
        ({"labels": {"a": 5}}, "labels.a"),
        ({"labels": {"": "x"}}, "labels"),
        ({"labels": {"a\nb": "x"}}, "labels"),
        ({"labels": {str(n): "x" for n in range(51)}}, "labels"),
        ({"send_at": "2026-12-01T09:00:00"}, "send_at"),
        ({"send_at": "tomorrow"}, "send_at"),
        ({"send_at": 1_700_000_000}, "send_at"),
        ({"send_at": "9999-12-31T23:59:59-12:00"}, "send_at"),
        ({"send_at": datetime(2026, 12, 1)}, "send_at"),  # noqa: DTZ001
        ({"valid_for_seconds": 0}, "valid_for_seconds"),
        ({"valid_for_seconds": True}, "valid_for_seconds"),
        ({"valid_for_seconds": 1.5}, "valid_for_seconds"),
        ({"valid_for_seconds": 10**12}, "valid_for_seconds"),
        ({"priority": "urgent"}, "priority"),
        ({"body": "x"}, "body"),
        ({"recipient": "x"}, "recipient"),
    ],
)
def test_an_email_is_refused_with_its_field_named(fields: dict[str, Any], field: str) -> None:
    assert list(refused({**EMAIL, **fields})) == [field]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"to": ["+12025550143", "+12025550144"]}, "to"),
        ({"to": None}, "to"),
        ({"body": None}, "body"),
        ({"body": "   "}, "body"),
        ({"body": "x" * 1601}, "body"),
        ({"body": 5}, "body"),
        ({"from": "too long a sender"}, "from"),
        ({"media_url": ["ftp://example.com/x"]}, "media_url[0]"),
        ({"media_url": ["javascript:alert(1)"]}, "media_url[0]"),
        ({"media_url": ["https://[::1"]}, "media_url[0]"),
        ({"media_url": ["https://example.com/a b"]}, "media_url[0]"),
        ({"media_url": ["https://example.com/x"] * 11}, "media_url"),
        ({"subject": "x"}, "subject"),
    ],
)
def test_a_text_message_is_refused_with_its_field_named(fields: dict[str, Any], field: str) -> None:
    assert list(refused({**SMS, **fields})) == [field]


@pytest.mark.parametrize(
    "name",
    [
        *("From", "to", "CC", "Bcc", "Subject", "Message-ID", "Date", "Content-Type", "Sender"),
        *("MIME-Version", "Received", "Return-Path", "Reply-To", "Resent-Bcc", "DKIM-Signature"),
        *("Content-Transfer-Encoding", "X-Wireroom-Key"),
    ],
)
def test_headers_that_are_not_the_applications_are_refused(name: str) -> None:
    assert list(refused({**EMAIL, "headers": {name: "x"}})) == [f"headers.{name}"]


def test_all_problems_are_told_at_once() -> None:
    problems = refused({**EMAIL, "to": "x", "subject": "a\nb", "priority": "?", "colour": "red"})

    assert set(problems) == {"to", "subject", "priority", "colour"}
    assert all(message.endswith((".", ")")) or message for message in problems.values())


def test_998_octets_of_subject_are_kept() -> None:
    assert email(subject="ab " * 332 + "ab").subject == "ab " * 332 + "ab"


# --- hostile text -----------------------------------------------------------------------------

MARKUP = ['"><img src=x onerror=alert(1)>', "</script><svg onload=alert(1)>", "{{7*7}}", "%s%n"]
INERT = [
    *MARKUP,
    "\u200f\u05e9\u05dc\u05d5\u05dd\u200e",
    "\u202egnp.exe",
    "🏳️‍🌈 e\u0301",
    "' OR 1=1 --",
]
BROKEN = ["a\x00b", "\ud800", "x\udfffy"]
LINES = ["a\rb", "a\nb", "a\r\nBcc: eve@example.com", "a\x0bb", "a\x1b[31mb", "a\x85b", "a\u2028b"]

TEXT_FIELDS: dict[str, Any] = {
    "subject": lambda text: {"subject": text},
    "text": lambda text: {"text": text},
    "html": lambda text: {"html": text},
    "labels.tag": lambda text: {"labels": {"tag": text}},
    "target.id": lambda text: {"target": {"type": "x", "id": text}},
    "target.type": lambda text: {"target": {"type": text, "id": "x"}},
    "headers.X-Y": lambda text: {"headers": {"X-Y": text}},
}
STRICT_FIELDS: dict[str, Any] = {
    "to": lambda text: {"to": text},
    "cc[0]": lambda text: {"cc": [text]},
    "bcc[0]": lambda text: {"bcc": [text]},
    "from": lambda text: {"from": f"{text} <a@example.com>"},
    "reply_to[0]": lambda text: {"reply_to": [f"{text}@example.com"]},
    "kind": lambda text: {"kind": text},
    "priority": lambda text: {"priority": text},
    "send_at": lambda text: {"send_at": text},
    "attachments[0].filename": lambda text: {"attachments": [{**FILE, "filename": text}]},
    "attachments[0].content": lambda text: {"attachments": [{**FILE, "content": text}]},
    "attachments[0].content_id": lambda text: {"attachments": [{**FILE, "content_id": text}]},
}


@pytest.mark.parametrize("text", INERT, ids=ascii)
@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_hostile_text_is_kept_as_it_is(field: str, text: str) -> None:
    request = email(**TEXT_FIELDS[field](text))

    assert text in (
        *(request.subject, request.text, request.html, request.common.target_id),
        *(request.common.target_type, *request.common.labels.values(), *request.headers.values()),
    )


@pytest.mark.parametrize("text", BROKEN, ids=ascii)
@pytest.mark.parametrize("field", [*TEXT_FIELDS, *STRICT_FIELDS])
def test_text_that_cannot_be_stored_is_refused_everywhere(field: str, text: str) -> None:
    fields = {**TEXT_FIELDS, **STRICT_FIELDS}[field](text)

    assert list(refused({**EMAIL, **fields})) == [field]


@pytest.mark.parametrize("text", LINES, ids=ascii)
@pytest.mark.parametrize("field", [*TEXT_FIELDS, *STRICT_FIELDS])
def test_line_breaks_stay_out_of_everything_but_bodies(field: str, text: str) -> None:
    fields = {**TEXT_FIELDS, **STRICT_FIELDS}[field](text)

    if field in ("text", "html"):
        assert text in (email(**fields).text, email(**fields).html)
    else:
        assert field in refused({**EMAIL, **fields})


@pytest.mark.parametrize("text", BROKEN, ids=ascii)
def test_text_messages_cannot_hold_what_cannot_be_stored(text: str) -> None:
    assert list(refused({**SMS, "body": text})) == ["body"]


@pytest.mark.parametrize("name", ["a\x00b", "\ud800", "a" * 1001])
def test_a_name_that_cannot_be_stored_is_refused(name: str) -> None:
    assert refused({**EMAIL, name: "x"}) == {"body": "It has a name that cannot be stored."}


@pytest.mark.parametrize("field", [*TEXT_FIELDS, "to", "kind"])
def test_five_megabytes_are_refused_with_the_field_named(field: str) -> None:
    fields = {**TEXT_FIELDS, **STRICT_FIELDS}[field]("x" * (TEXT_OCTETS + 1))

    assert list(refused({**EMAIL, **fields})) == [field.split(".")[0]]


# --- files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "filename",
    [
        *("../../etc/passwd", "/etc/passwd", "..\\..\\x", "C:\\x", ".", "..", "a/b", "C:x", ""),
        *("a\r\nX: y", "a\x00.pdf", "invoice\u202efdp.exe", "x" * 256, " .. "),
    ],
)
def test_a_file_has_a_name_and_no_path(filename: str) -> None:
    fields = {"attachments": [{**FILE, "filename": filename}]}

    assert list(refused({**EMAIL, **fields})) == ["attachments[0].filename"]


@pytest.mark.parametrize("filename", ["отчёт Q4.pdf", "a%2f..%2fb", "no extension", ".profile"])
def test_odd_names_are_kept(filename: str) -> None:
    assert email(attachments=[{**FILE, "filename": filename}]).files[0].filename == filename  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("image/png", "image/png"),
        ("TEXT/Plain; charset=utf-8", "text/plain"),
        ("nonsense", "application/octet-stream"),
        ("", "application/octet-stream"),
        ("text/<b>", "application/octet-stream"),
    ],
)
def test_a_type_that_is_none_becomes_neutral(given: str, kept: str) -> None:
    assert email(attachments=[{**FILE, "content_type": given}]).files[0].content_type == kept  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"content": ""}, "content"),
        ({"content": None}, "content"),
        ({"content": "not base64!"}, "content"),
        ({"content": "YWJj\nYWJj"}, "content"),
        ({"content": "YWJ"}, "content"),
        ({"content": 5}, "content"),
        ({"content": base64.b64encode(b"x" * 101).decode()}, "content"),
        ({"content": "A" * 10_000}, "content"),
        ({"content_type": "text/html\r\nX: y"}, "content_type"),
        ({"content_id": "<logo>"}, "content_id"),
        ({"content_id": "a b"}, "content_id"),
        ({"inline": True}, "content_id"),
        ({"inline": "yes"}, "inline"),
        ({"path": "/etc/passwd"}, "path"),
    ],
)
def test_a_file_is_refused_with_its_field_named(fields: dict[str, Any], field: str) -> None:
    values = {**EMAIL, "attachments": [{**FILE, **fields}]}

    assert list(refused(values, Limits(max_file_bytes=100))) == [f"attachments[0].{field}"]


def test_files_are_bounded_together_and_in_number() -> None:
    two = [{**FILE, "content": base64.b64encode(b"x" * 60).decode()}] * 2
    assert list(refused({**EMAIL, "attachments": two}, Limits(max_file_bytes=100))) == [
        "attachments"
    ]
    assert list(refused({**EMAIL, "attachments": [FILE] * 31})) == ["attachments"]


def test_two_inline_files_cannot_have_one_content_id() -> None:
    inline = {**FILE, "inline": True, "content_id": "logo@inline.invalid"}

    assert list(refused({**EMAIL, "attachments": [inline, inline]})) == ["attachments"]


@pytest.mark.parametrize("given", ["../1", "%2e%2e%2f1", "1", "", {"id": "x"}, 5, None])
def test_what_is_no_id_of_a_file_is_refused(given: object) -> None:
    fields = list(refused({**EMAIL, "attachments": [given]}))

    assert len(fields) == 1
    assert fields[0].startswith("attachments[0]")


# --- JSON -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": Infinity}', "Infinity"),
        (b"\xff\xfe", "not valid JSON in UTF-8"),
        (b"[]", "one JSON object"),
        (b'"x"', "one JSON object"),
        (b"[" * 100_000, "nested|not valid"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not valid JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as caught:
        parse_object(body)
    assert [problem.field for problem in caught.value.problems] == ["body"]


def test_a_number_without_end_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_object(b'{"labels": {"a": 1e400}}')
    assert [problem.field for problem in caught.value.problems] == ["labels.a"]


def test_depth_is_bounded() -> None:
    deep: Any = "x"
    for _ in range(21):
        deep = {"a": deep}
    with pytest.raises(InvalidRequest, match="nested more than 20"):
        parse_object(json.dumps(deep).encode())
    with pytest.raises(InvalidRequest, match="nested"):
        parse_object(b'{"a":' * 3000 + b"1" + b"}" * 3000)


def test_the_content_of_files_does_not_count_as_text() -> None:
    content = base64.b64encode(b"x" * TEXT_OCTETS).decode()

    parse_object(json.dumps({"attachments": [{"content": content}]}).encode())
    parse_object(json.dumps({"messages": [{"attachments": [{"content": content}]}]}).encode())
    with pytest.raises(InvalidRequest):
        parse_object(json.dumps({"labels": {"attachments[0].content": content}}).encode())


# --- idempotency keys -------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a", "A", "ключ", "x" * 255, "a b"])
def test_keys_are_kept_as_given(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize("key", ["", "   ", "x" * 256, "x" * 10_000, "a\nb", "a\x00"])
def test_keys_that_are_none(key: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_key(key)
    assert [problem.field for problem in caught.value.problems] == ["Idempotency-Key"]


def test_bodies_that_say_the_same_have_one_hash() -> None:
    first = parse_object(b'{"to": "a", "labels": {"x": "1", "y": "2"}}')
    again = parse_object(b'{ "labels":{"y":"2","x":"1"},"to":"\\u0061" }')

    assert body_hash(first) == body_hash(again)
    assert body_hash(first) != body_hash({**first, "to": "A"})
