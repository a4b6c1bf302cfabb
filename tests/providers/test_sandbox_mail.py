"""The reader of captured mail: pages, pruning, ids that name no path, and hostile messages."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.providers.base import RequestRefused, WebhookRequest
from dashboard.providers.sandbox_mail import CapturedMessage, count, load, newest
from dashboard.providers.sandbox_reports import (
    SIGNATURE_HEADER,
    parse,
    report_secret,
    sign,
    verify,
)
from dashboard.providers.sandbox_store import capture, file_of, prune

HOSTILE = [
    b"",
    b"\r\n\r\n",
    b"no headers at all",
    b"Subject: =?utf-8?b?////?=\r\nFrom: \xff\xfe <\r\n\r\nx",
    b"Subject: =?no-such-charset?q?=FF?=\r\n\r\nx",
    b'Content-Type: text/plain; charset="no-such"\r\n\r\n\xff\xfe',
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n!!!%%%",
    b"Content-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n--x\r\n",
    b"Content-Type: multipart/mixed\r\n\r\n--x\r\n",
    b"Content-Type: multipart/mixed; boundary=\r\n\r\n",
    b"Content-Type: application/x; name*0*=bad''%zz; name*2=y\r\nContent-ID: <a\r\n\r\nx",
    b"Content-Disposition: attachment; filename*=no-such''%ff%fe\r\n\r\nx",
    b'Content-Disposition: attachment; filename="../../etc/passwd"\r\n\r\nx',
    b"Content-Type: text/plain\r\nContent-Transfer-Encoding: x-uuencode\r\n\r\nbegin 666 a\r\n!!",
    b"Content-Type: message/rfc822\r\n\r\n" * 2000,
    b"".join(
        b"Content-Type: multipart/mixed; boundary=%d\r\n\r\n--%d\r\n" % (i, i) for i in range(2000)
    ),
    b"X: " + b"a" * 1_000_000 + b"\r\n\r\nbody",
]


def _kept(data_dir: Path, content: bytes) -> CapturedMessage:
    message_id = capture(data_dir, mail_from="a@x", rcpt_to=["b@x"], content=content)
    message = load(data_dir, message_id)
    assert message is not None
    assert [summary.id for summary in newest(data_dir, limit=1)] == [message_id]
    return message


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_message_shows_less_and_never_raises(tmp_path: Path, content: bytes) -> None:
    message = _kept(tmp_path, content)
    assert message.raw == content
    shown = [message.text, message.html, message.summary.subject, message.summary.sender]
    shown += [part for file in message.files for part in (file.filename, file.content_type)]
    for text in shown:
        text.encode("utf-8")


@given(st.binary(max_size=300), st.sampled_from(HOSTILE[:13]))
@settings(max_examples=150, deadline=None)
def test_no_octets_can_make_the_reader_raise(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, start: bytes
) -> None:
    data_dir = tmp_path_factory.getbasetemp() / "junk"
    message_id = capture(data_dir, mail_from="", rcpt_to=[], content=start[:60] + junk)
    message = load(data_dir, message_id)
    assert message is not None
    repr(message).encode("utf-8")


@pytest.mark.parametrize(
    "message_id",
    [
        "",
        "..",
        "../address.json",
        "/etc/passwd",
        "a" * 31,
        "g" * 32,
        "A" * 32,
        "0" * 32,
        "f" * 31 + "\n",
        "٣" * 32,
    ],
)
def test_what_is_not_an_id_finds_nothing(tmp_path: Path, message_id: str) -> None:
    _kept(tmp_path, b"Subject: x\r\n\r\n")
    assert load(tmp_path, message_id) is None


def test_pages_follow_each_other_without_gap_or_repeat(tmp_path: Path) -> None:
    for number in range(25):
        capture(tmp_path, mail_from="a@x", rcpt_to=[], content=b"Subject: %d\r\n\r\n" % number)
    everything = [summary.id for summary in newest(tmp_path, limit=100)]
    paged: list[str] = []
    while page := newest(tmp_path, limit=10, before=paged[-1] if paged else ""):
        paged += [summary.id for summary in page]
    assert paged == everything
    assert len(set(paged)) == 25
    assert paged == sorted(paged, reverse=True)
    assert newest(tmp_path, limit=3, before="../..") == newest(tmp_path, limit=3)


def test_an_empty_sandbox_has_no_pages(tmp_path: Path) -> None:
    assert newest(tmp_path) == []
    assert count(tmp_path) == 0
    assert prune(tmp_path) == 0


def test_pruning_keeps_the_newest_by_number_and_by_size(tmp_path: Path) -> None:
    ids = [capture(tmp_path, mail_from="a@x", rcpt_to=[], content=b"x" * 1000) for _ in range(30)]
    kept = sorted(ids)[-20:]
    assert prune(tmp_path, most=20) == 10
    assert sorted(summary.id for summary in newest(tmp_path, limit=100)) == kept
    assert prune(tmp_path, most_bytes=5500) == 15
    assert prune(tmp_path, most=0) == 5
    assert not file_of(tmp_path, ids[0]).parent.exists()


def _request(body: bytes, signature: str) -> WebhookRequest:
    return WebhookRequest("POST", "/", "", {SIGNATURE_HEADER.lower(): signature}, body)


def test_an_old_signature_is_refused() -> None:
    at = datetime(2026, 12, 1, tzinfo=UTC)
    secret = report_secret("key")
    request = _request(b"{}", sign(secret, b"{}", at))
    verify(request, secret, at + timedelta(hours=23))
    with pytest.raises(RequestRefused, match="24 hours"):
        verify(request, secret, at + timedelta(hours=25))


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"events": 1}', b"[" * 100_000])
def test_a_body_that_is_not_ours_is_refused(body: bytes) -> None:
    with pytest.raises(RequestRefused):
        parse(_request(body, ""))


def test_one_bad_event_does_not_cost_the_others() -> None:
    events = b'{"events": [1, {"event": 7, "occurred_at": "x"}, {"event": "delivered"}]}'
    assert [str(report.event) for report in parse(_request(events, ""))] == ["other", "delivered"]
