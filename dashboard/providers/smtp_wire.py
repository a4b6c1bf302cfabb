"""smtplib's commands over a socket that keeps to a time budget and knows how far it got.

The exception classes of smtplib cannot tell "lost before the message left" from "lost after it";
the phase can. The conversation itself is in `smtp_connection`, its meaning in `smtp_outcomes`.
"""

import io
import math
import re
import smtplib
import socket
import ssl
from dataclasses import dataclass
from enum import StrEnum

from typing_extensions import Buffer, override

from dashboard.clock import monotonic
from dashboard.providers.smtp_url import Security, Server

_CHUNK_BYTES = 64 * 1024
_DOT_AT_LINE_START = re.compile(rb"(?m)^\.")


class Phase(StrEnum):
    """How far a hand-over got. Only a loss in `dot_sent` leaves doubt about the message."""

    CONNECT = "connect"
    GREETING = "greeting"
    EHLO = "ehlo"
    STARTTLS = "starttls"
    AUTH = "auth"
    IDLE = "idle"
    MAIL = "mail"
    RCPT = "rcpt"
    DATA_COMMAND = "data_command"
    DATA_BODY = "data_body"
    DOT_SENT = "dot_sent"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply of the server; `code` is -1 where it sent no number."""

    code: int
    text: str = ""


class Refused(Exception):
    """The server answered, and the answer was no."""

    def __init__(self, phase: Phase, reply: Reply) -> None:
        super().__init__(phase, reply)
        self.phase = phase
        self.reply = reply


class Lost(Exception):
    """The connection could not be made, or was lost, or took too long."""

    def __init__(self, phase: Phase, cause: Exception) -> None:
        super().__init__(phase, cause)
        self.phase = phase
        self.cause = cause


class Impossible(Exception):
    """The server does not offer what is needed; nothing was handed over."""

    def __init__(self, phase: Phase, text: str) -> None:
        super().__init__(text)
        self.phase = phase


@dataclass(slots=True)
class Budget:
    """How long one hand-over may wait: per socket operation, and in all.

    A timeout per operation alone lets a server that drips one octet at a time hold us for ever.
    """

    operation_seconds: float
    ends_at: float

    @classmethod
    def of(cls, operation_seconds: float, total_seconds: float) -> "Budget":
        """Start counting now."""
        return cls(operation_seconds, monotonic() + total_seconds)

    def left(self) -> float:
        """Return the seconds that the next socket operation may take.

        Raises:
            TimeoutError: the whole time is used up.
        """
        left = self.ends_at - monotonic()
        if left <= 0:
            raise TimeoutError("the time for the whole conversation is used up")
        return min(left, self.operation_seconds)


class _Reader(io.RawIOBase):
    """The socket's reading side, which looks at the budget before every read."""

    def __init__(self, wire: "Wire") -> None:
        super().__init__()
        self._wire = wire

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Buffer, /) -> int:
        sock = self._wire.live_socket()
        sock.settimeout(self._wire.budget.left())
        return sock.recv_into(buffer)


class Wire(smtplib.SMTP):
    """smtplib's commands over a socket that keeps to a budget and knows its phase."""

    def __init__(self, server: Server, budget: Budget, context: ssl.SSLContext) -> None:
        self.phase = Phase.CONNECT
        self.budget = budget
        self._tls = context if server.security is Security.TLS else None
        super().__init__(local_hostname=server.own_name, timeout=budget.left())
        self._host = server.host  # smtplib checks the certificate against it in starttls()

    def live_socket(self) -> socket.socket:
        """Return the open socket.

        Raises:
            ConnectionError: it was closed.
        """
        if self.sock is None:
            raise ConnectionError("the connection is closed")
        return self.sock

    def _get_socket(self, host: str, port: int, timeout: float) -> socket.socket:
        sock = socket.create_connection((host, port), timeout)
        try:
            # The final dot is a small packet after others: without this it waits for their ACK.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock.settimeout(self.budget.left())
                sock = self._tls.wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise
        self.phase = Phase.GREETING
        return sock

    @override
    def getreply(self) -> tuple[int, bytes]:
        if self.file is None and self.sock is not None:
            self.file = io.BufferedReader(_Reader(self))
        return super().getreply()

    @override
    def send(self, s: Buffer | str) -> None:
        if self.sock is not None:
            self.sock.settimeout(self.budget.left())
        super().send(s)

    def transmit(self, content: bytes) -> Reply:
        """Hand over the message; afterwards `phase` says whether the final dot has left."""
        self.phase = Phase.DATA_COMMAND
        expect(self.phase, reply_of(*self.docmd("DATA")), 354)
        self.phase = Phase.DATA_BODY
        end = b".\r\n" if content.endswith(b"\r\n") else b"\r\n.\r\n"
        body = memoryview(_DOT_AT_LINE_START.sub(b"..", content))
        whole_chunks = len(body) - len(body) % _CHUNK_BYTES
        for start in range(0, whole_chunks, _CHUNK_BYTES):
            self.send(body[start : start + _CHUNK_BYTES])
        self._send_end(bytes(body[whole_chunks:]) + end)
        # Whoever stops waiting now does not know; so this reply may take all the time there is.
        self.budget.operation_seconds = math.inf
        return reply_of(*self.getreply())

    def _send_end(self, end: bytes) -> None:
        """Send the rest of the message with the final dot as its last octets."""
        sock = self.live_socket()
        sock.settimeout(self.budget.left())
        self.phase = Phase.DOT_SENT
        try:
            sock.sendall(end)
        except OSError:
            # Not all of it was taken, so the dot was not: the server has no complete message.
            self.phase = Phase.DATA_BODY
            raise


def reply_of(code: int, text: bytes) -> Reply:
    """Return what smtplib read as a `Reply`; octets that are not UTF-8 become marks."""
    return Reply(code, text.decode("utf-8", "replace"))


def expect(phase: Phase, reply: Reply, *codes: int) -> Reply:
    """Return `reply`, or raise `Refused` because its code is none of `codes`."""
    if reply.code not in codes:
        raise Refused(phase, reply)
    return reply
