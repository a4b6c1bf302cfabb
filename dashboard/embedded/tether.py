"""Ties processes to the one that started them, so that nothing outlives even `kill -9`.

Linux does it in the kernel (PR_SET_PDEATHSIG). Elsewhere a guard process holds the reading end of a
pipe: when the writing end closes because its owner died, the guard ends what it was told about.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

KERNEL_TIES = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_GUARD_GRACE_SECONDS = 5.0


def die_with_parent(signal_number: int = signal.SIGKILL, *, parent: int | None = None) -> None:
    """Have this process receive `signal_number` when the process that started it dies.

    Call it in the child, after any change of user: the kernel forgets it when the user changes.
    The kernel watches the *thread* that started this process, so start children from a main thread.

    Args:
        signal_number: what to receive; SIGKILL cannot be missed.
        parent: the parent's process id if known, which closes the gap between start and this call.
    """
    expected = os.getppid() if parent is None else parent
    if KERNEL_TIES:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(expected, signal_number), daemon=True).start()
    if os.getppid() != expected:
        os.kill(os.getpid(), signal_number)


def _watch(parent: int, signal_number: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal_number)


def tie(signal_number: int) -> Callable[[], None] | None:
    """Return what `subprocess` runs between fork and exec to tie a child, where the kernel can."""
    if not KERNEL_TIES:
        return None
    library = ctypes.CDLL(None)  # loaded before the fork: the child must not take a loader lock
    parent = os.getpid()

    def tie_child() -> None:
        library.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return tie_child


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that is dead and only not yet reaped does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return _state(pid) != "Z"


def _state(pid: int) -> str:
    """Return the one-letter state that `ps` shows, or "" when the process is gone."""
    if KERNEL_TIES:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return ""
    command = ["/bin/ps", "-o", "stat=", "-p", str(pid)]
    shown = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - fixed
    return shown.stdout.strip()[:1]


class Guard:
    """A process that ends the tied ones when this process dies; needed where the kernel cannot."""

    def __init__(self) -> None:
        """Start the guard; it lives until `close` or the death of this process."""
        command = [sys.executable, "-I", __file__]
        self._process = subprocess.Popen(  # noqa: S603 - this very file
            command, stdin=subprocess.PIPE, text=True, start_new_session=True
        )

    @property
    def pid(self) -> int:
        """The guard's own process id."""
        return self._process.pid

    def watch(self, pid: int, signal_number: int) -> None:
        """Have `pid` and its process group end when this process dies."""
        self._say(f"+ {pid} {int(signal_number)}")

    def forget(self, pid: int) -> None:
        """Leave `pid` alone from now on: it has ended, and its number may be given away again."""
        self._say(f"- {pid} 0")

    def close(self) -> None:
        """Let the guard end; what it still watches ends with it."""
        if self._process.stdin:
            self._process.stdin.close()
        self._process.wait(timeout=2 * _GUARD_GRACE_SECONDS)

    def _say(self, line: str) -> None:
        if self._process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(line + "\n")
                self._process.stdin.flush()


def _guard() -> None:
    """Read what to watch until the pipe closes, then end it: first as told, then by SIGKILL."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    watched: dict[int, int] = {}
    for line in sys.stdin:
        action, pid, number = line.split()
        if action == "+":
            watched[int(pid)] = int(number)
        else:
            watched.pop(int(pid), None)
    for pid, wanted in watched.items():
        _signal_group(pid, wanted)
    until = time.monotonic() + _GUARD_GRACE_SECONDS
    while time.monotonic() < until and any(is_alive(pid) for pid in watched):
        time.sleep(0.05)
    for pid in watched:
        _signal_group(pid, signal.SIGKILL)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
    if number == signal.SIGKILL:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)


if __name__ == "__main__":
    _guard()
