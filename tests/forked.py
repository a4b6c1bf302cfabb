"""What a forked process of a test does first: a session, a log and an environment of its own.

Forked from a server that has imported everything: a start costs 50 ms instead of seconds, which is
what makes it possible to have four processes in every story.
"""

import importlib
import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from dashboard.embedded.tether import die_with_parent

_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["jobs.worker", "jobs.schedule", "tests.gated_worker", __name__])


def start(
    entry: str, arguments: list[Any], *, log: Path, environment: Mapping[str, str]
) -> BaseProcess:
    """Start `module:function` with these arguments; its result is the exit code."""
    values = (entry, arguments, str(log), dict(environment))
    process = _FORKS.Process(target=_run, args=values, daemon=True)
    process.start()
    return process


def _run(entry: str, arguments: list[Any], log: str, environment: dict[str, str]) -> None:
    os.setsid()
    die_with_parent()
    with Path(log).open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    module, _, name = entry.partition(":")
    sys.exit(getattr(importlib.import_module(module), name)(*arguments))
