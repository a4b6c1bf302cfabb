"""A folder that `nobody` can pass through, and a runner of `small_up.py` that leaves nothing."""

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dashboard.embedded.tether import is_alive
from tests.embedded.running import Run, wait_until


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder outside pytest's own (0700), removed at the end."""
    folder = Path(tempfile.mkdtemp(prefix="wireroom-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def small_up(open_folder: Path) -> Iterator[Callable[..., Run]]:
    """Start `small_up.py` on one data directory, as often as the test likes; ends them all."""
    runs: list[Run] = []

    def start(*arguments: str, **environment: str) -> Run:
        data_dir = open_folder / "var"
        arguments = arguments or ("0",)
        runs.append(Run(data_dir, *arguments, environment=environment))
        return runs[-1]

    yield start
    for run in runs:
        everybody = run.everybody() if run.process.poll() is None else set()
        with contextlib.suppress(ProcessLookupError):
            run.process.send_signal(signal.SIGKILL)
        run.process.wait()
        wait_until(lambda left=everybody: not any(is_alive(pid) for pid in left), 15)
