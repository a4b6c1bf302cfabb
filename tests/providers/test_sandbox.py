"""The sandbox: a real sink in a thread or a process, real files, real posts."""

import asyncio
import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from dashboard.providers.base import (
    Event,
    File,
    Outcome,
    OutcomeKind,
    Report,
    RequestRefused,
    WebhookRequest,
)
from dashboard.providers.sandbox import SandboxEmailProvider, read_address
from dashboard.providers.sandbox_mail import CapturedMessage, count, load, newest
from dashboard.providers.sandbox_poster import ReportPoster
from dashboard.providers.sandbox_server import Pace, serve
from tests.providers.factories import email, key

SECRET = b"for these tests"
ACCEPTED = OutcomeKind.ACCEPTED
T = TypeVar("T")


def eventually(ask: Callable[[], T], seconds: float = 8) -> T:
    """What `ask` returns once that is true."""
    ends_at = time.monotonic() + seconds
    while not (answer := ask()) and time.monotonic() < ends_at:
        time.sleep(0.02)
    assert answer
    return answer


class Webhook:
    """A web server that takes reports, or refuses the first few."""

    def __init__(self, refuse: int = 0) -> None:
        self.requests: list[WebhookRequest] = []
        self.refused = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = dict(self.headers.items())
                refuses = outer.refused < refuse
                outer.refused += refuses
                if not refuses:
                    outer.requests.append(WebhookRequest("POST", self.path, "", headers, body))
                self.send_response(503 if refuses else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def sandbox(data_dir: Path, base_url: str = "") -> Iterator[SandboxEmailProvider]:
    """A sink in a thread, and the route to it."""
    poster = ReportPoster(lambda: base_url, SECRET)
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    work = serve(data_dir, poster, stop, Pace(slow_seconds=0.3, report_seconds=0.05))
    thread = threading.Thread(target=loop.run_until_complete, args=(work,))
    thread.start()
    provider = SandboxEmailProvider(data_dir, secret=SECRET, deadline_seconds=5)
    try:
        eventually(lambda: read_address(data_dir))
        yield provider
    finally:
        provider.close()
        loop.call_soon_threadsafe(stop.set)
        thread.join(5)
        poster.stop()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def _send(provider: SandboxEmailProvider, name: str, **changes: object) -> Outcome:
    recipient = f"{name}@simulator.example"
    return provider.send(email(recipient=recipient, to=(recipient,), **changes), key())


def _newest(data_dir: Path) -> CapturedMessage:
    message = load(data_dir, newest(data_dir, limit=1)[0].id)
    assert message is not None
    return message


def test_what_was_sent_is_captured_to_the_last_byte(tmp_path: Path) -> None:
    pdf = File("отчёт Q4.pdf", "application/pdf", bytes(range(256)) * 100)
    logo = File("logo.png", "image/png", b"\x89PNG" + bytes(1000), "logo@inline.invalid")
    sent = email(html="<p>Grüße 🎉</p>", text="Grüße 🎉", files=(pdf, logo), cc=("cc@example.com",))
    with sandbox(tmp_path) as provider:
        outcome = provider.send(sent, key())
        captured = _newest(tmp_path)
    assert outcome.kind is ACCEPTED
    assert outcome.provider_message_id == captured.id
    assert not outcome.report_expected
    assert captured.summary.subject == "Grüße 🎉"
    assert captured.summary.envelope.rcpt_to == ("ada@example.com",)
    assert captured.summary.message_id == sent.message_id
    assert (captured.text.strip(), captured.html.strip()) == ("Grüße 🎉", "<p>Grüße 🎉</p>")
    assert captured.cc == "cc@example.com"
    files = {file.filename: file for file in captured.files}
    assert files["отчёт Q4.pdf"].content == pdf.content
    assert files["logo.png"].content == logo.content
    assert files["logo.png"].content_id == "logo@inline.invalid"
    assert files["logo.png"].inline
    assert captured.summary.size == len(captured.raw)


@pytest.mark.parametrize(
    ("name", "kind", "code", "captured", "report"),
    [
        ("delivered", ACCEPTED, "250 2.0.0", 1, True),
        ("bounced", ACCEPTED, "250 2.0.0", 1, True),
        ("silent", ACCEPTED, "250 2.0.0", 1, True),
        ("delivered+tag", ACCEPTED, "250 2.0.0", 1, True),
        ("slow", ACCEPTED, "250 2.0.0", 1, False),
        ("anybody", ACCEPTED, "250 2.0.0", 1, False),
        ("refused", OutcomeKind.PERMANENT, "550 5.1.1", 0, False),
        ("deferred", OutcomeKind.TRANSIENT, "451 4.7.1", 0, False),
        ("drop-after-accept", OutcomeKind.UNKNOWN, "", 1, False),
    ],
)
def test_simulator_recipients_do_what_they_are_called(
    tmp_path: Path, name: str, kind: OutcomeKind, code: str, captured: int, report: bool
) -> None:
    with sandbox(tmp_path) as provider:
        outcome = _send(provider, name)
    assert (outcome.kind, outcome.code) == (kind, code), outcome
    assert outcome.report_expected is report
    assert count(tmp_path) == captured


def test_a_deferred_message_is_taken_the_second_time(tmp_path: Path) -> None:
    with sandbox(tmp_path) as provider:
        first = _send(provider, "deferred", message_id="<same@wireroom.example>")
        second = _send(provider, "deferred", message_id="<same@wireroom.example>")
        other = _send(provider, "deferred", message_id="<other@wireroom.example>")
    assert first.retry_after_seconds == 300
    assert (first.about_recipient, second.kind, other.kind) == (True, ACCEPTED, first.kind)


def test_reports_are_signed_posted_again_and_read_back(tmp_path: Path) -> None:
    webhook = Webhook(refuse=1)
    try:
        with sandbox(tmp_path, webhook.url) as provider:
            sent_key = key()
            to = "bounced@simulator.example"
            bounced = provider.send(email(recipient=to, to=(to,)), sent_key)
            delivered = _send(provider, "delivered")
            _send(provider, "silent")

            def reports() -> list[Report]:
                return [one for request in webhook.requests for one in provider.parse(request)]

            eventually(lambda: len(reports()) == 2)
            for request in webhook.requests:
                provider.verify(request)
    finally:
        webhook.close()
    by_id = {report.provider_message_id: report for report in reports()}
    failure = by_id[bounced.provider_message_id]
    assert (failure.event, failure.permanent, failure.code) == (Event.FAILED, True, "550 5.1.1")
    assert (failure.key, failure.recipient) == (sent_key.tracking, to)
    assert by_id[delivered.provider_message_id].event is Event.DELIVERED
    assert webhook.requests[0].path == "/webhooks/email/sandbox"
    assert webhook.refused == 1


def test_the_route_says_so_when_there_is_no_sink(tmp_path: Path) -> None:
    provider = SandboxEmailProvider(tmp_path, secret=SECRET)
    assert provider.send(email(), key()).kind is OutcomeKind.TRANSIENT
    assert "wireroom up" in provider.probe().detail


def test_the_process_stops_on_sigterm_and_comes_back_on_its_port(tmp_path: Path) -> None:
    environment = {**os.environ, "WIREROOM_DATA_DIR": str(tmp_path), "SECRET_KEY": "x"}
    provider = SandboxEmailProvider(tmp_path, secret=SECRET, deadline_seconds=5)
    ports = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-m", "dashboard.providers.sandbox_server"],
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            eventually(lambda: provider.send(email(), key()).kind is ACCEPTED)
            address = json.loads((tmp_path / "sandbox" / "address.json").read_text())
            assert address["pid"] == process.pid
            assert provider.probe().kind is ACCEPTED
            ports.append(address["port"])
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(5) == 0
    provider.close()
    assert ports[0] == ports[1]
    assert count(tmp_path) == 2


def test_a_report_is_believed_only_as_it_was_signed(tmp_path: Path) -> None:
    provider = SandboxEmailProvider(tmp_path, secret=SECRET)
    webhook = Webhook()
    try:
        with sandbox(tmp_path, webhook.url) as sink:
            _send(sink, "delivered")
            (request,) = eventually(lambda: list(webhook.requests))
    finally:
        webhook.close()
    provider.verify(request)
    changed = request.body.replace(b"delivered", b"failed")
    for headers, body in (
        (request.headers, changed),
        ({}, request.body),
        ({"X-Wireroom-Signature": "t=1,v1=ff"}, request.body),
        ({"X-Wireroom-Signature": "v1=ü"}, request.body),
    ):
        with pytest.raises(RequestRefused):
            provider.verify(WebhookRequest("POST", request.path, "", headers, body))
    stranger = SandboxEmailProvider(tmp_path, secret=b"another")
    with pytest.raises(RequestRefused):
        stranger.verify(request)
