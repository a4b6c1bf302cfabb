"""One child process: how it is started, when it counts as ready, and how it is ended.

Knows no PostgreSQL and no Valkey, and restarts nothing: see `supervisor.py`.
"""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.embedded import tether

_LOG_MAX_BYTES = 10 * 1024 * 1024


class StartFailed(Exception):
    """A child did not become ready; the message says which, why, and where its log is."""


@dataclass(frozen=True)
class User:
    """The operating-system user that a child runs as."""

    uid: int
    gid: int


@dataclass(frozen=True)
class Program:
    """What to run, and everything that differs between one child and the next.

    Attributes:
        stage: programs of the highest stage stop first, equal ones together.
        is_ready: asked with the process id until it answers true; None: ready once started.
        ready_seconds: how long to ask before giving up.
        stop_signal: asks it to end in order.
        grace_seconds: how long it may take to end before SIGKILL.
        orphan_signal: what the kernel sends when the supervisor dies.
        log: a file for its output; None: the supervisor's own output.
    """

    name: str
    command: tuple[str, ...]
    stage: int = 0
    environment: Mapping[str, str] | None = None
    user: User | None = None
    log: Path | None = None
    is_ready: Callable[[int], bool] | None = None
    ready_seconds: float = 30.0
    stop_signal: int = signal.SIGTERM
    grace_seconds: float = 10.0
    orphan_signal: int = signal.SIGKILL
    before_start: Callable[[], None] | None = field(default=None, compare=False)


class Child:
    """A running program, in a session of its own so that Ctrl-C reaches only the supervisor."""

    def __init__(
        self,
        program: Program,
        guard: tether.Guard | None = None,
        *,
        keep_open: tuple[int, ...] = (),
    ) -> None:
        """Start the program; call from the main thread (see `tether.die_with_parent`).

        Args:
            program: what to start.
            guard: ends it with this process where the kernel cannot.
            keep_open: file descriptors that it inherits (a lock that shows that it lives).

        Raises:
            StartFailed: when the program cannot be executed at all.
        """
        self.program = program
        self.started = time.monotonic()
        self._guard = guard
        if program.before_start:
            program.before_start()
        try:
            self._process = _start(program, keep_open)
        except OSError as error:
            message = f"{program.name} could not be started: {error.strerror}: {program.command[0]}"
            raise StartFailed(message) from error
        if guard:
            guard.watch(self.pid, program.orphan_signal)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def age_seconds(self) -> float:
        """How long ago it was started."""
        return time.monotonic() - self.started

    def has_ended(self) -> bool:
        """Return whether it ended, and reap it if so."""
        if self._process.poll() is None:
            return False
        if self._guard:
            self._guard.forget(self.pid)
            self._guard = None
        return True

    def is_ready(self) -> bool:
        """Return whether it answers now."""
        return self.program.is_ready is None or self.program.is_ready(self.pid)

    def describe_end(self) -> str:
        """Return how it ended, in words for the operator."""
        code = self._process.returncode
        if code is None:
            return "still runs"
        if code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with exit code {code}"

    def wait_ready(self, while_waiting: Callable[[], None] = lambda: None) -> None:
        """Return when it answers.

        Args:
            while_waiting: called between two looks; may raise to give up.

        Raises:
            StartFailed: when it ends instead, or takes longer than its `ready_seconds`.
        """
        while not self.is_ready():
            if self.has_ended():
                raise StartFailed(f"{self.program.name} {self.describe_end()}.{self._last_words()}")
            if self.age_seconds > self.program.ready_seconds:
                raise StartFailed(
                    f"{self.program.name} did not answer within"
                    f" {self.program.ready_seconds:.0f} s.{self._last_words()}"
                )
            while_waiting()
            time.sleep(0.01)

    def ask_to_stop(self) -> None:
        """Send the stop signal; does not wait."""
        self._signal(self.program.stop_signal)

    def kill(self) -> None:
        """End it and everything in its session's process group at once, and reap it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)
        self._process.wait()
        self.has_ended()

    def stop(self) -> None:
        """Ask it to end, wait its grace time, then kill it."""
        self.ask_to_stop()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(self.program.grace_seconds)
        self.kill()

    def _signal(self, number: int) -> None:
        if not self.has_ended():
            self._process.send_signal(number)

    def _last_words(self) -> str:
        if self.program.log is None:
            return " Its own output above says why."
        with contextlib.suppress(OSError):
            lines = self.program.log.read_text(errors="replace").strip().splitlines()
            return f" Last line of {self.program.log}: {lines[-1] if lines else '(empty)'}"
        return ""


def _start(program: Program, keep_open: tuple[int, ...]) -> subprocess.Popen[bytes]:
    output = _open_log(program.log) if program.log else None
    try:
        return subprocess.Popen(  # noqa: S603 - the commands are our own
            program.command,
            env=dict(program.environment) if program.environment is not None else None,
            cwd="/" if program.user else None,  # ours may be closed to that user
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT if output is not None else None,
            start_new_session=True,
            pass_fds=keep_open,
            preexec_fn=tether.tie(program.orphan_signal),  # runs after the change of user
            user=program.user.uid if program.user else None,
            group=program.user.gid if program.user else None,
            extra_groups=[] if program.user else None,
        )
    finally:
        if output is not None:
            os.close(output)


def _open_log(path: Path) -> int:
    """Open a log for appending, 0600; one that grew large makes room, its predecessor is kept."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > _LOG_MAX_BYTES:
            path.replace(path.with_name(path.name + ".1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def free_port(preferred: int = 0) -> int:
    """Return a loopback TCP port that is free now: the preferred one if it is."""
    for port in (preferred, 0):
        if port == 0 or is_free(port):
            break
    if port:
        return port
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Return whether a server could listen on that loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen()
        except OSError:
            return False
    return True
