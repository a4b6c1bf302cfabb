"""A mail server that keeps what it accepts and answers when the test wants it to."""

import contextlib
import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

_MESSAGE_ID = re.compile(rb"^Message-ID:\s*<([^@>]+)@", re.IGNORECASE | re.MULTILINE)
_LONGEST_SECONDS = 60.0


@dataclass
class Sink:
    """The running server and what it accepted.

    Attributes:
        accepted: the dispatch id of each message whose final dot came, in that order.
        pause_seconds: how long each answer to a final dot takes.
        sign_in: the answer to AUTH.
    """

    port: int = 0
    pause_seconds: float = 0.0
    sign_in: str = "235 2.7.0 welcome"
    accepted: list[str] = field(default_factory=list)
    sign_ins: int = 0
    _open: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _end: threading.Event = field(default_factory=threading.Event)
    _sockets: set[socket.socket] = field(default_factory=set)

    def url(self, user: str = "") -> str:
        """The SMTP_URL of this server."""
        return f"smtp://{user}127.0.0.1:{self.port}?starttls=never"

    def hold_answers(self) -> None:
        """Take final dots from now on, and do not answer them."""
        self._open.clear()

    def answer(self) -> None:
        """Answer again, also those that wait."""
        self._open.set()

    def counts(self) -> Counter[str]:
        """How often each dispatch arrived."""
        with self._lock:
            return Counter(self.accepted)

    def twice(self) -> list[str]:
        """The dispatches that arrived more than once."""
        return [one for one, count in self.counts().items() if count > 1]

    def serve(self, listener: socket.socket) -> None:
        """Accept connections until the listener is closed."""
        while not self._end.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self._sockets.add(connection)
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Hang up on everybody."""
        self._end.set()
        self._open.set()
        for connection in self._sockets.copy():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _converse(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rwb") as lines:
            self._say(lines, "220 sink.example ESMTP")
            while (line := lines.readline()) and not line.upper().startswith(b"QUIT"):
                self._answer(lines, line.split()[0].upper() if line.split() else b"")
            self._say(lines, "221 2.0.0 bye")

    def _answer(self, lines: BinaryIO, verb: bytes) -> None:
        if verb == b"EHLO":
            self._say(lines, "250-sink.example\r\n250-AUTH PLAIN\r\n250 SIZE 20000000")
        elif verb == b"AUTH":
            self.sign_ins += 1
            self._say(lines, self.sign_in)
        elif verb == b"DATA":
            self._say(lines, "354 go on")
            self._take(lines)
        else:
            self._say(lines, "250 2.0.0 ok")

    def _take(self, lines: BinaryIO) -> None:
        content = b""
        while (line := lines.readline()) != b".\r\n":
            if not line:
                return
            content += line
        found = _MESSAGE_ID.search(content)
        with self._lock:
            self.accepted.append(found[1].decode() if found else "")
        self._end.wait(self.pause_seconds)
        self._open.wait(_LONGEST_SECONDS)
        self._say(lines, "250 2.0.0 queued")

    @staticmethod
    def _say(lines: BinaryIO, text: str) -> None:
        lines.write(text.encode() + b"\r\n")
        lines.flush()


@contextlib.contextmanager
def sink() -> Iterator[Sink]:
    """A mail server for the length of a block."""
    server = Sink()
    server.answer()
    with socket.create_server(("127.0.0.1", 0), backlog=200) as listener:
        server.port = listener.getsockname()[1]
        thread = threading.Thread(target=server.serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.close()
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
