"""The embedded Valkey that RQ and rq-scheduler use: says how to run it, and whether it answers."""

import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path

from dashboard.embedded import binaries
from dashboard.embedded.postgres import secret_in
from dashboard.embedded.process import Program

_SOCKET_PATH_MAX = 90


@dataclass(frozen=True)
class Valkey:
    """A server on this machine, run on loopback and on a socket beside its data."""

    home: Path
    password: str
    port: int

    @property
    def url(self) -> str:
        """How the application connects; holds the password."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def program(self, *, log: Path) -> Program:
        """Return how to run it. Its password is in a file (0600), never on a command line."""
        return Program(
            name="valkey",
            command=(str(binaries.valkey_server()), str(self.home / "valkey.conf")),
            log=log,
            is_ready=self.is_ready,
            orphan_signal=signal.SIGTERM,  # writes out what the last second appended
            ready_seconds=60.0,  # a long append-only file is read first
            before_start=self.write_configuration,
        )

    def write_configuration(self) -> None:
        """Write `valkey.conf`: appended to every second, and nothing is ever evicted."""
        socket_path = self.home / "valkey.sock"
        lines = [
            "bind 127.0.0.1",
            f"port {self.port}",
            f'requirepass "{self.password}"',
            f'dir "{self.home}"',
            "appendonly yes",
            "appendfsync everysec",
            'save ""',
            "maxmemory-policy noeviction",
            "loglevel notice",
            "daemonize no",
        ]
        if len(os.fsencode(socket_path)) <= _SOCKET_PATH_MAX:
            lines += [f'unixsocket "{socket_path}"', "unixsocketperm 700"]
        path = self.home / "valkey.conf"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write("\n".join(lines) + "\n")

    def is_ready(self, pid: int) -> bool:
        """Return whether the server `pid` answers PING (it does not while it loads its data)."""
        question = f"AUTH {self.password}\r\nPING\r\nINFO server\r\n".encode()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(question)
                answer = connection.recv(512)
                while b"process_id:" not in answer and (more := connection.recv(4096)):
                    answer += more
        except OSError:
            return False
        return answer.startswith(b"+OK\r\n+PONG\r\n") and b"process_id:%d\r\n" % pid in answer


def prepare(data_dir: Path, *, port: int) -> Valkey:
    """Return the server of `data_dir`, with its folder (0700) and password made if missing.

    Args:
        data_dir: Wireroom's data directory.
        port: the loopback port it will listen on.
    """
    home = data_dir.resolve() / "valkey"
    home.mkdir(mode=0o700, exist_ok=True)
    return Valkey(home=home, password=secret_in(data_dir / "valkey_password"), port=port)
