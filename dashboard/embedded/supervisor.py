"""Keeps programs running: starts them in order, restarts what dies, stops them stage by stage.

Single-threaded: it sleeps until a signal comes (a child's death is one) or a restart is due.
"""

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

from dashboard.embedded import tether
from dashboard.embedded.process import Child, Program, StartFailed

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0
_SETTLED_SECONDS = 60.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopRequested(Exception):
    """Somebody asked for the end while something was still starting."""


@dataclass
class _Restart:
    program: Program
    due: float


class Supervisor:
    """The parent of everything that `wireroom up` runs."""

    def __init__(
        self,
        say: Callable[[str], None],
        *,
        keep_open: tuple[int, ...] = (),
        on_change: Callable[[dict[str, int]], None] = lambda _: None,
        with_guard: bool = not tether.KERNEL_TIES,
    ) -> None:
        """Start with no children.

        Args:
            say: shows a line to the operator.
            keep_open: file descriptors that every child inherits.
            on_change: told the process ids by name whenever they change.
            with_guard: tie children by a pipe instead of only by the kernel.
        """
        self._say = say
        self._keep_open = keep_open
        self._on_change = on_change
        self._children: dict[str, Child] = {}
        self._restarts: list[_Restart] = []
        self._failures: dict[str, int] = {}
        self._stopping = False
        self._wake_read, self._wake_write = os.pipe()
        self._guard = tether.Guard() if with_guard else None

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Take over the stop signals and the news of a child's death, for the block."""
        os.set_blocking(self._wake_write, False)
        before = {number: signal.getsignal(number) for number in (*_STOP_SIGNALS, signal.SIGCHLD)}
        woken = signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in _STOP_SIGNALS:
            # Under nohup a closed terminal is no reason; but a shell's "&" ignores SIGINT, we not.
            if number != signal.SIGHUP or before[number] is not signal.SIG_IGN:
                signal.signal(number, self._note_stop)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # only has to wake the loop up
        try:
            yield
        finally:
            signal.set_wakeup_fd(woken)
            for number, handler in before.items():
                signal.signal(number, handler)

    def start(self, program: Program) -> Child:
        """Start a program, return when it answers, and keep it running from then on.

        Raises:
            StartFailed: when it does not come up.
            StopRequested: when somebody asked for the end meanwhile.
        """
        self._check()
        child = self._launch(program)
        child.wait_ready(self._check)
        return child

    def run_once(self, program: Program) -> None:
        """Run a program to its end.

        Raises:
            StartFailed: when it ends with anything but 0.
            StopRequested: when somebody asked for the end meanwhile (the program is ended too).
        """
        self._check()
        child = Child(program, self._guard, keep_open=self._keep_open)
        try:
            while not child.has_ended():
                self._check()
                self._sleep(0.05)
        finally:
            child.stop()
        if child.describe_end() != "ended with exit code 0":
            raise StartFailed(f"{program.name} {child.describe_end()}; its output above says why.")

    def run(self) -> None:
        """Restart what dies, until a stop signal comes."""
        while not self._stopping:
            self._note_deaths()
            self._restart_due()
            due = min((restart.due for restart in self._restarts), default=None)
            self._sleep(None if due is None else max(0.0, due - time.monotonic()))

    def stop(self) -> None:
        """Stop every child: the highest stage first, each stage within its grace time."""
        self._restarts.clear()
        for stage in sorted({child.program.stage for child in self._children.values()})[::-1]:
            children = [child for child in self._children.values() if child.program.stage == stage]
            for child in children:
                child.ask_to_stop()
            self._await_end(children)
        self._children.clear()
        if self._guard:
            self._guard.close()
        self._on_change({})

    def _await_end(self, children: list[Child]) -> None:
        began = time.monotonic()
        told = False
        waiting = children
        while waiting := [child for child in waiting if not child.has_ended()]:
            waited = time.monotonic() - began
            if waited > 2 and not told:
                told = True
                self._say("Waiting for " + ", ".join(f"{c.program.name}" for c in waiting) + " …")
            for child in waiting:
                if waited > child.program.grace_seconds:
                    self._say(
                        f"{child.program.name} did not end within"
                        f" {child.program.grace_seconds:.0f} s; it was killed."
                    )
                    child.kill()
            self._sleep(0.05)
        for child in children:
            child.kill()  # what it left behind in its process group

    def _launch(self, program: Program) -> Child:
        child = Child(program, self._guard, keep_open=self._keep_open)
        self._children[program.name] = child
        self._on_change({name: child.pid for name, child in self._children.items()})
        return child

    def _note_deaths(self) -> None:
        for name, child in list(self._children.items()):
            if child.has_ended():
                child.kill()  # its own children go with it before it comes again
                del self._children[name]
                if child.age_seconds > _SETTLED_SECONDS:
                    self._failures.pop(name, None)
                lived = f"(process {child.pid}) {child.describe_end()}"
                self._plan_restart(child.program, f"{lived} after {child.age_seconds:.0f} s")

    def _plan_restart(self, program: Program, what_happened: str) -> None:
        failures = self._failures.get(program.name, 0)
        self._failures[program.name] = failures + 1
        pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**failures)
        self._restarts.append(_Restart(program, time.monotonic() + pause))
        self._say(f"{program.name} {what_happened}; it starts again in {pause:g} s.")

    def _restart_due(self) -> None:
        now = time.monotonic()
        due = [restart for restart in self._restarts if restart.due <= now]
        self._restarts = [restart for restart in self._restarts if restart.due > now]
        for restart in due:
            try:
                self._launch(restart.program)
            except StartFailed as error:
                self._plan_restart(restart.program, f"could not start ({error})")

    def _note_stop(self, _number: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def _check(self) -> None:
        if self._stopping:
            raise StopRequested

    def _sleep(self, seconds: float | None) -> None:
        """Sleep until a signal comes, at most that long."""
        readable, _, _ = select.select([self._wake_read], [], [], seconds)
        if readable:
            os.read(self._wake_read, 4096)
