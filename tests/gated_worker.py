"""A DispatchWorker that stops itself (SIGSTOP) once, at one point of its way.

The points are seen from outside, in the statements that go to PostgreSQL: `mark` is after the claim
was committed and before the hand-over mark is sent; `call` is after the mark was committed and
before the provider is called; `record` is before an outcome is written.
"""

import os
import signal
from typing import Any

from sqlalchemy import Connection, Engine, Pool, event

from jobs.worker import main


def _is_mark(statement: str) -> bool:
    return "UPDATE attempt" in statement and "handed_over_at=" in statement


def _is_record(statement: str) -> bool:
    return "FOR UPDATE OF dispatch" in statement and "SKIP LOCKED" not in statement


class Gate:
    """Stops this process the first time that it comes to the point."""

    def __init__(self, point: str) -> None:
        self._point = point
        self._marked = False
        self._passed = False

    def before_statement(self, _connection: Connection, _cursor: Any, sql: str, *_: Any) -> None:
        """Stop before the mark, or before the first outcome is written."""
        if _is_mark(sql):
            self._reach("mark")
            self._marked = True
        elif self._marked and _is_record(sql):
            self._reach("record")

    def after_transaction(self, *_: Any) -> None:
        """Stop once the mark is committed and its connection given back."""
        if self._marked:
            self._reach("call")

    def _reach(self, point: str) -> None:
        if point == self._point and not self._passed:
            self._passed = True
            os.kill(os.getpid(), signal.SIGSTOP)


def run(point: str) -> int:
    """Run a worker on `default` that stops itself at the point; return its exit code."""
    gate = Gate(point)
    event.listen(Engine, "before_cursor_execute", gate.before_statement)
    event.listen(Pool, "checkin", gate.after_transaction)
    return main(["default"])
