"""A local stand-in for Twilio's API that the real client talks to: sandbox, tests, benchmark.

It takes messages, answers fetches and lists, and posts signed status callbacks. What a number does
is in `twilio_faults`; every other number is reported delivered.
"""

import base64
import json
import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import format_datetime
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from dashboard.clock import now
from dashboard.providers.sandbox_sms import SmsStore, captured
from dashboard.providers.status_poster import StatusPoster, Wanted
from dashboard.providers.twilio_faults import FAULTS, NUMBERS, Fault

PAGE = 100
KEPT = 20_000


@dataclass(slots=True)
class StoredMessage:
    """A message as the API knows it."""

    sid: str
    to: str
    sender: str
    body: str
    created_at: datetime
    status: str
    error_code: str = ""

    def as_json(self, account: str) -> dict[str, Any]:
        """Return it in the API's shape; an accepted one has no sending date yet."""
        stamp = format_datetime(self.created_at)
        sent = self.status in ("sent", "delivered", "undelivered")
        return {
            "sid": self.sid,
            "account_sid": account,
            "to": self.to,
            "from": self.sender,
            "body": self.body,
            "status": self.status,
            "direction": "outbound-api",
            "error_code": int(self.error_code) if self.error_code else None,
            "error_message": None,
            "date_created": stamp,
            "date_updated": stamp,
            "date_sent": stamp if sent else None,
            "num_segments": "1",
            "num_media": "0",
            "api_version": "2010-04-01",
            "uri": f"/2010-04-01/Accounts/{account}/Messages/{self.sid}.json",
        }


class StandIn:
    """The state of one stand-in: its account, messages, and reports under way."""

    def __init__(self, data_dir: Path, account: tuple[str, str], *, pace_seconds: float) -> None:
        self.account_sid, self.auth_token = account
        self.store = SmsStore(data_dir)
        self.messages: dict[str, StoredMessage] = {}
        self.pace_seconds = pace_seconds
        self.poster = StatusPoster(self.account_sid, self.auth_token)
        self.creates = 0
        # Answer this many fetches and lists with "too many requests" first.
        self.busy_for = 0
        self.fetches = 0
        self._lock = threading.Lock()

    def create(self, fields: dict[str, list[str]]) -> StoredMessage:
        """Keep a message and let its statuses be reported."""
        prefix = "MM" if fields.get("MediaUrl") else "SM"
        sid = prefix + secrets.token_hex(16)
        note = captured(sid, fields)
        by_service = "From" not in fields
        message = StoredMessage(
            sid=sid,
            to=note.recipient,
            sender=note.sender,
            body=note.body,
            created_at=now(),
            status="accepted" if by_service else "queued",
        )
        with self._lock:
            self.creates += 1
            self.messages[sid] = message
            while len(self.messages) > KEPT:
                self.messages.pop(next(iter(self.messages)))
        self.store.add(note)
        self._plan(message, fields.get("StatusCallback", [""])[0])
        return message

    def _plan(self, message: StoredMessage, callback: str) -> None:
        final, code = ("delivered", "")
        if message.to.startswith("+120255501"):
            final, code = NUMBERS.get(message.to[-2:], (final, code))
        steps = [("sent", "")] + ([(final, code)] if final else [])
        for number, (status, error_code) in enumerate(steps, start=1):
            wanted = Wanted(
                url=callback,
                fields={
                    "MessageSid": message.sid,
                    "SmsSid": message.sid,
                    "MessageStatus": status,
                    "SmsStatus": status,
                    "To": message.to,
                    "From": message.sender,
                    "AccountSid": self.account_sid,
                    "ApiVersion": "2010-04-01",
                    **({"ErrorCode": error_code} if error_code else {}),
                },
                on_due=partial(_set, message, status, error_code),
            )
            self.poster.add(wanted, delay_seconds=number * self.pace_seconds)

    def is_busy(self) -> bool:
        """Count a fetch or list, and return whether it is one of those that are too many."""
        with self._lock:
            self.fetches += 1
            busy = self.busy_for > 0
            self.busy_for -= busy
            return busy

    def listed(self, query: Mapping[str, list[str]]) -> list[StoredMessage]:
        """Return the messages to a number, newest first."""
        to = query.get("To", [""])[0]
        with self._lock:
            found = [one for one in self.messages.values() if not to or one.to == to]
        return found[::-1]


def _set(message: StoredMessage, status: str, error_code: str) -> None:
    message.status, message.error_code = status, error_code


class Handler(BaseHTTPRequestHandler):
    """Speaks as much of the API as Wireroom uses; the method names are the base class's."""

    protocol_version = "HTTP/1.1"
    # Head and body are two writes; the second would wait 40 ms for the first one's receipt.
    disable_nagle_algorithm = True
    server: "StandInServer"

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: every test and every message would be a line."""

    def do_POST(self) -> None:
        """Create a message."""
        length = int(self.headers.get("Content-Length") or 0)
        fields = parse_qs(self.rfile.read(length).decode(), keep_blank_values=True)
        if self._refused():
            return
        to = fields.get("To", [""])[0]
        fault = FAULTS.get(to[-4:]) if to.startswith("+1500555") else None
        if fault is None:
            message = self.server.stand_in.create(fields)
            self._answer(201, message.as_json(self.server.stand_in.account_sid))
            return
        self._misbehave(fault, fields)

    def do_GET(self) -> None:
        """Answer a fetch, a list or the account."""
        if self._refused():
            return
        stand_in = self.server.stand_in
        if stand_in.is_busy():
            self._error(429, 20429, {"Retry-After": "1"})
            return
        parts = urlsplit(self.path)
        if parts.path.endswith("/Messages.json"):
            self._list(parse_qs(parts.query))
        elif "/Messages/" in parts.path:
            sid = parts.path.rpartition("/")[2].removesuffix(".json")
            message = stand_in.messages.get(sid)
            if message is None:
                self._error(404, 20404)
            else:
                self._answer(200, message.as_json(stand_in.account_sid))
        else:
            self._answer(200, {"sid": stand_in.account_sid, "status": "active"})

    def _list(self, query: dict[str, list[str]]) -> None:
        stand_in = self.server.stand_in
        page = int(query.get("Page", ["0"])[0])
        size = int(query.get("PageSize", [str(PAGE)])[0])
        found = stand_in.listed(query)
        shown = found[page * size : (page + 1) * size]
        more = len(found) > (page + 1) * size
        to = query.get("To", [""])[0].replace("+", "%2B")
        base = f"/2010-04-01/Accounts/{stand_in.account_sid}/Messages.json"
        following = f"{base}?To={to}&PageSize={size}&Page={page + 1}" if more else None
        self._answer(
            200,
            {
                "messages": [one.as_json(stand_in.account_sid) for one in shown],
                "next_page_uri": following,
                "page": page,
                "page_size": size,
                "uri": base,
            },
        )

    def _refused(self) -> bool:
        stand_in = self.server.stand_in
        pair = f"{stand_in.account_sid}:{stand_in.auth_token}".encode()
        wanted = "Basic " + base64.b64encode(pair).decode()
        if self.headers.get("Authorization") == wanted:
            return False
        self._error(401, 20003)
        return True

    def _misbehave(self, fault: Fault, fields: dict[str, list[str]]) -> None:
        message = self.server.stand_in.create(fields) if fault.creates else None
        time.sleep(fault.wait_seconds)
        if fault.status == 0:
            self.close_connection = True
            self.connection.close()
        elif fault.body is not None:
            self._send(fault.status, fault.body, fault.headers, "text/html")
        elif message is not None:
            self._answer(fault.status, message.as_json(self.server.stand_in.account_sid))
        else:
            self._error(fault.status, fault.code, fault.headers)

    def _error(self, status: int, code: int, headers: Mapping[str, str] | None = None) -> None:
        content = {"code": code, "message": f"stand-in error {code}", "status": status}
        self._send(status, json.dumps(content).encode(), headers or {}, "application/json")

    def _answer(self, status: int, content: Mapping[str, Any]) -> None:
        self._send(status, json.dumps(content).encode(), {}, "application/json")

    def _send(self, status: int, body: bytes, headers: Mapping[str, str], kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class StandInServer(ThreadingHTTPServer):
    """Listens on loopback; `port` 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, stand_in: StandIn, port: int = 0) -> None:
        self.stand_in = stand_in
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self.server_address[1])

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a client that went away."""
