"""Real processes for tests: workers, scheduler; started, stopped, killed, and always ended.

Ends only what it started. Waits by polling with a deadline, never by sleeping and hoping.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dashboard.embedded.tether import is_alive, tie
from tests import forked

ROOT = Path(__file__).resolve().parents[1]
READY = "worker ready"

Running = subprocess.Popen[bytes] | BaseProcess


def wait_until(
    condition: Callable[[], bool], seconds: float = 10, explain: Callable[[], str] = lambda: ""
) -> None:
    """Return when the condition holds; fail with an explanation when it does not in time."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"did not happen within {seconds} s: {explain()}"
        time.sleep(0.02)


class Process:
    """One process and its log."""

    def __init__(self, name: str, log: Path, running: Running) -> None:
        self.name = name
        self.log = log
        self.again: Callable[[], Process] | None = None
        self._running = running

    @property
    def pid(self) -> int:
        assert self._running.pid is not None
        return self._running.pid

    @property
    def exit_code(self) -> int | None:
        """How it ended: negative for a signal; None while it runs."""
        if isinstance(self._running, subprocess.Popen):
            return self._running.poll()
        return self._running.exitcode

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, phrase: str, seconds: float = 15) -> None:
        """Return when a phrase is in its log."""
        wait_until(lambda: phrase in self.text(), seconds, self._last_words)

    def ready(self) -> "Process":
        """Return this worker once it said that it is ready."""
        self.wait_for(READY)
        return self

    def _last_words(self) -> str:
        return f"{self.name}: {self.text()}"

    def terminate(self) -> None:
        """Send SIGTERM; does not wait."""
        os.kill(self.pid, signal.SIGTERM)

    def finish(self, seconds: float = 15) -> int:
        """Wait for its end and return the exit code."""
        wait_until(lambda: self.exit_code is not None, seconds, self._last_words)
        assert self.exit_code is not None
        return self.exit_code

    def stop(self, seconds: float = 15) -> int:
        """Send SIGTERM, wait for the end, return the exit code."""
        self.terminate()
        return self.finish(seconds)

    def kill(self) -> None:
        """End it by SIGKILL, with the processes it forked, and reap it."""
        if self.exit_code is None:
            for end in (os.kill, os.killpg):
                with contextlib.suppress(ProcessLookupError):
                    end(self.pid, signal.SIGKILL)
            self.finish()

    def pause(self) -> None:
        """Send SIGSTOP and return once it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        self.wait_paused()

    def wait_paused(self, seconds: float = 10) -> None:
        """Return once it stands still, whoever stopped it."""
        wait_until(self.is_paused, seconds, self._last_words)

    def is_paused(self) -> bool:
        stat = Path(f"/proc/{self.pid}/stat").read_text()
        return stat.rpartition(")")[2].split()[0] == "T"

    def resume(self) -> None:
        """Send SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def memory_kb(self) -> int:
        """The resident memory now, in kB."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0])


class Processes:
    """The processes of one test, on one installation's servers."""

    def __init__(self, environment: Mapping[str, str], folder: Path) -> None:
        own = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        self.environment = {**own, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(ROOT), **environment}
        self.all: list[Process] = []
        self._folder = folder

    def fork(self, name: str, entry: str, *arguments: Any, **environment: str) -> Process:
        """Start `module:function` in a process of its own, without paying for the imports."""
        log = self._log(name)
        own = {**self.environment, **environment}
        running = forked.start(entry, list(arguments), log=log, environment=own)
        process = self._keep(Process(name, log, running))
        process.again = partial(self.fork, name, entry, *arguments, **environment)
        return process

    def command(self, name: str, *arguments: str, **environment: str) -> Process:
        """Run a Python command line as an operator would."""
        log = self._log(name)
        with log.open("wb") as output:
            running = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=tie(signal.SIGKILL),
            )
        return self._keep(Process(name, log, running))

    def worker(self, *queues: str, **environment: str) -> Process:
        """Start a DispatchWorker on these queues, `default` if none is named."""
        return self.fork("worker", "jobs.worker:main", list(queues or ("default",)), **environment)

    def gated_worker(self, gate: str, **environment: str) -> Process:
        """Start a DispatchWorker that stops itself (SIGSTOP) at a point; see `gated_worker.py`."""
        return self.fork("gated", "tests.gated_worker:run", gate, **environment)

    def keepers(self) -> None:
        """Start the scheduler and one worker for the periodic tasks."""
        self.fork("scheduler", "jobs.schedule:main")
        self.worker("clock", "maintenance")

    def revive(self) -> bool:
        """Start again what ended by itself, as a supervisor does; return true."""
        for process in list(self.all):
            if process.exit_code is not None and process.again:
                again, process.again = process.again, None
                again()
        return True

    def logs(self) -> str:
        """Everything that all of them wrote."""
        return "\n".join(f"--- {one.name} {one.pid}\n{one.text()}" for one in self.all)

    def _log(self, name: str) -> Path:
        log = self._folder / f"{len(self.all)}-{name}.log"
        log.touch()
        return log

    def _keep(self, process: Process) -> Process:
        self.all.append(process)
        return process

    def end(self) -> None:
        """Kill what still runs and wait until nothing of it is left."""
        for process in self.all:
            process.kill()
        wait_until(lambda: not any(is_alive(process.pid) for process in self.all))


def _is_ours(name: str) -> bool:
    return name.startswith(("WIREROOM_", "SMTP_", "TWILIO_")) or name.endswith("_URL")


@contextlib.contextmanager
def processes(environment: Mapping[str, str], folder: Path) -> Iterator[Processes]:
    """Processes for the length of a block; all are ended at its end, however it ends."""
    some = Processes(environment, folder)
    try:
        yield some
    finally:
        some.end()
