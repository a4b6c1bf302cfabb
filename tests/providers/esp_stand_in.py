"""A local stand-in for the APIs of email services: real sockets, answers in each service's form.

What it does is driven by the recipient: `e429@…` answers 429, `slow@…` takes too long, `drop@…`
hangs up after it has taken the message, `odd@…` answers 200 with something else than JSON.
"""

import json
import re
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote_plus

SLOW_SECONDS = 1.5


@dataclass(frozen=True)
class Taken:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: bytes
    client: tuple[str, int]

    @property
    def text(self) -> str:
        return unquote_plus(self.body.decode("utf-8", "replace"))

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Scene:
    """What the stand-in has taken, by service, and the id it gives next."""

    taken: list[Taken] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    by_key: dict[str, str] = field(default_factory=dict)


def answer_of(esp: str, message_id: str) -> tuple[int, Any, Mapping[str, str]]:
    """Return status, body and headers of a success."""
    to = "ada@example.com"
    bodies: dict[str, Any] = {
        "postmark": {"To": to, "MessageID": message_id, "ErrorCode": 0, "Message": "OK"},
        "mailgun": {"id": f"<{message_id}@mg.example.com>", "message": "Queued. Thank you."},
        "ses": {"MessageId": message_id},
        "resend": {"id": message_id},
        "brevo": {"messageId": f"<{message_id}@smtp-relay.example.com>"},
        "mailjet": {
            "Messages": [
                {"Status": "success", "To": [{"Email": to, "MessageID": 17}], "Cc": [], "Bcc": []}
            ]
        },
        "mandrill": [{"email": to, "status": "sent", "_id": message_id}],
        "sparkpost": {
            "results": {
                "total_accepted_recipients": 1,
                "total_rejected_recipients": 0,
                "id": message_id,
            }
        },
        "mailtrap": {"success": True, "message_ids": [message_id]},
        "postal": {"status": "success", "data": {"message_id": "a", "messages": {to: {"id": 5}}}},
        "scaleway": {"emails": [{"id": message_id, "mail_rcpt": to, "status": "new"}]},
        "unisender_go": {"status": "success", "job_id": message_id, "emails": [to]},
    }
    accepted = {"sendgrid": 202, "mailersend": 202, "brevo": 201}
    headers = {"X-Message-Id": message_id} if esp in ("sendgrid", "mailersend") else {}
    return accepted.get(esp, 200), bodies.get(esp, ""), headers


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    scene: Scene

    def do_HEAD(self) -> None:
        self.send_response(404)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        taken = Taken(self.path, headers, body, self.client_address)
        with self.scene.lock:
            self.scene.taken.append(taken)
        found = re.search(
            r"\b(e\d{3}|slow|drop|odd|inactive|vague|half|refused|suspended)@example\.com",
            taken.text,
        )
        what = found[1] if found else ""
        if what == "drop":
            self.close_connection = True
            self.connection.close()
            return
        if what == "slow":
            threading.Event().wait(SLOW_SECONDS)
        self._reply(what, taken)

    def _reply(self, what: str, taken: Taken) -> None:
        esp = self.path.split("/")[1]
        key = taken.headers.get("idempotency-key", "")
        message_id = self.scene.by_key.get(key) or str(uuid.uuid4())
        if key:
            self.scene.by_key[key] = message_id
        status, body, headers = answer_of(esp, message_id)
        if what.startswith("e"):
            status, body = int(what[1:]), {"message": f"no: {what}@example.com"}
            headers = {"Retry-After": "7"} if status == 429 else {}
        replies: dict[str, tuple[int, Any]] = {
            "odd": (200, "<html>"),
            "inactive": (422, {"ErrorCode": 406, "Message": "Inactive recipient."}),
            "refused": (200, {"status": "error", "data": {"code": "NoRecipients"}}),
            "suspended": (200, {"status": "error", "data": {"code": "ServerSuspended"}}),
            "vague": (422, {"ErrorCode": 300, "Message": "Error parsing 'To': something."}),
            "half": (
                200,
                {
                    "To": "half@example.com",
                    "MessageID": "x",
                    "ErrorCode": 0,
                    "Message": "Message OK, but will not deliver to these inactive addresses: "
                    "half@example.com",
                },
            ),
        }
        status, body = replies.get(what, (status, body))
        self._write(status, body, headers)

    def _write(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            kind = "application/json" if content else "text/html"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


class StandIn:
    """The stand-in, running."""

    def __init__(self) -> None:
        self.scene = Scene()
        handler = type("SceneHandler", (Handler,), {"scene": self.scene})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url(self, esp: str) -> str:
        return f"http://127.0.0.1:{self.port}/{esp}/"

    @property
    def taken(self) -> list[Taken]:
        with self.scene.lock:
            return list(self.scene.taken)

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
