"""What is tied to a process dies with it, by the kernel and by the guard."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dashboard.embedded import tether
from tests.embedded.running import ROOT, wait_until

PARENT_TIED_BY_KERNEL = """
import subprocess, sys, time
from dashboard.embedded.process import Child, Program
child = Child(Program("sleeper", ("/bin/sleep", "60")))
print(child.pid, flush=True)
time.sleep(60)
"""
PARENT_TIED_BY_GUARD = """
import subprocess, sys, time
from dashboard.embedded import tether
guard = tether.Guard()
gone = subprocess.Popen(["/bin/sleep", "60"], start_new_session=True)
guard.watch(gone.pid, 9)
guard.forget(gone.pid)
stubborn = subprocess.Popen(
    ["/bin/sh", "-c", "trap '' TERM; sleep 60 & wait; sleep 60"], start_new_session=True
)
guard.watch(stubborn.pid, 15)
print(stubborn.pid, guard.pid, gone.pid, flush=True)
time.sleep(60)
"""
PARENT_OF_A_CHILD_THAT_TIES_ITSELF = """
import os, signal, time
from dashboard.embedded.tether import die_with_parent
parent = os.getpid()
if (child := os.fork()) == 0:
    die_with_parent(parent=parent)
    time.sleep(60)
print(child, flush=True)
time.sleep(60)
"""


def start(code: str) -> tuple[subprocess.Popen[str], list[int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, [int(word) for word in process.stdout.readline().split()]


@pytest.mark.parametrize("code", [PARENT_TIED_BY_KERNEL, PARENT_OF_A_CHILD_THAT_TIES_ITSELF])
def test_a_tied_child_dies_with_its_killed_parent(code: str) -> None:
    process, (child,) = start(code)
    with process:
        assert tether.is_alive(child)
        process.kill()
        wait_until(lambda: not tether.is_alive(child), 5)


def test_the_guard_ends_what_it_watches_even_what_ignores_the_signal() -> None:
    process, (stubborn, guard, forgotten) = start(PARENT_TIED_BY_GUARD)
    with process:
        process.kill()
        wait_until(lambda: not tether.is_alive(stubborn), 15)
        wait_until(lambda: not tether.is_alive(guard), 5)
    assert tether.is_alive(forgotten)
    os.kill(forgotten, signal.SIGKILL)


def test_a_zombie_counts_as_dead() -> None:
    process = subprocess.Popen(["/bin/true"])
    wait_until(lambda: not tether.is_alive(process.pid), 5)
    assert Path(f"/proc/{process.pid}").exists()  # not reaped yet: kill(pid, 0) would succeed
    process.wait()


def test_a_process_that_runs_counts_as_alive_and_one_that_never_was_does_not() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        assert tether.is_alive(process.pid)
        process.kill()
    assert not tether.is_alive(process.pid)
