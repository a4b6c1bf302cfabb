"""Runs `small_up.py` as a process and looks at what it does."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SMALL_UP = Path(__file__).with_name("small_up.py")
ROOT = Path(__file__).resolve().parents[2]


class Run:
    """One `small_up.py` process."""

    def __init__(self, data_dir: Path, *arguments: str, environment: dict[str, str]) -> None:
        self.data_dir = data_dir
        self.output = data_dir.parent / f"output-{time.monotonic_ns()}"
        own = {key: value for key, value in os.environ.items() if not key.endswith("_URL")}
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, str(SMALL_UP), str(data_dir), *arguments],
                env={**own, "PYTHONPATH": str(ROOT), **environment},
                cwd=data_dir.parent,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.output.read_text()

    def story(self) -> list[str]:
        """What the programs wrote, as "start web", without process ids."""
        with contextlib.suppress(FileNotFoundError):
            lines = (self.data_dir / "story").read_text().splitlines()
            return [line.rpartition(" ")[0] for line in lines]
        return []

    def servers(self) -> dict[str, object]:
        with contextlib.suppress(FileNotFoundError):
            return json.loads((self.data_dir / "servers.json").read_text())
        return {}

    def pids(self) -> dict[str, int]:
        pids = self.servers().get("pids", {})
        assert isinstance(pids, dict)
        return pids

    def wait_for(self, text: str, seconds: float = 20) -> None:
        wait_until(lambda: text in self.text(), seconds, lambda: self.text())

    def finish(self, seconds: float = 20) -> int:
        return self.process.wait(seconds)

    def everybody(self) -> set[int]:
        """The process ids of the run: those in servers.json and all that descend from them."""
        found = set(self.pids().values()) | {self.process.pid}
        children: dict[int, set[int]] = {}
        for entry in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = entry.read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), set()).add(int(entry.parent.name))
        unseen = list(found)
        while unseen:
            more = children.get(unseen.pop(), set()) - found
            found |= more
            unseen += more
        return found


def wait_until(
    condition: Callable[[], bool], seconds: float = 10, explain: Callable[[], str] = lambda: ""
) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, f"did not happen within {seconds} s: {explain()}"
        time.sleep(0.02)
