"""A Valkey of its own for each test that kills, stops or empties it."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from dashboard.embedded.binaries import valkey_server


@dataclass
class OwnValkey:
    """A server on a port that stays the same when it is killed and started again."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def connect(self, timeout: float = 0.8) -> Redis:
        return Redis.from_url(
            self.url,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )

    def start(self) -> None:
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        options += ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        self.process = subprocess.Popen(
            [str(valkey_server()), *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 10
        with self.connect() as connection:
            while True:
                try:
                    connection.ping()
                    return
                except RedisError:
                    assert time.monotonic() < deadline, "Valkey did not start"
                    time.sleep(0.02)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def valkey(tmp_path: Path) -> Iterator[OwnValkey]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = OwnValkey(tmp_path, port)
    server.start()
    yield server
    server.kill()


@pytest.fixture
def redis(valkey: OwnValkey) -> Iterator[Redis]:
    with valkey.connect() as connection:
        yield connection
