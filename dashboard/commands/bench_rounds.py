"""One round of the benchmark: accept messages as the API does, wait until all went out, measure.

Starts no process and prints nothing: see `bench.py` and `bench_own.py`.
"""

import secrets
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import create_engine, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

import dashboard.dispatch.tables  # noqa: F401  relationships need every model
from dashboard import clock
from dashboard.access.models import Source
from dashboard.database import engine_options, new_id
from dashboard.dispatch.intake import find_source, limits_of
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.request.accept import Ask, accept_all
from dashboard.dispatch.request.rows import Asker
from dashboard.dispatch.request.validation import parse_request
from dashboard.dispatch.states import State
from dashboard.settings import Settings

SOURCE = "bench"
BULK_SIZE = 100
PARALLEL = 4
PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.05
_PERCENT_95 = 18  # of the 19 cuts into twentieths


class Mode(StrEnum):
    """How the messages are handed over."""

    SINGLES = "singles"
    BULK = "bulk"


class Measured(NamedTuple):
    """What one round, or the median of some, came to."""

    per_second: float
    accepted_per_second: float
    p50_ms: float
    p95_ms: float


class TooSlow(Exception):
    """Messages stay behind; the sentence says how many and what to look at."""


class Bench:
    """Sends rounds of messages through one installation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        options = engine_options(
            pool_size=PARALLEL, lock_timeout_ms=5000, statement_timeout_ms=20000
        )
        self._engine = create_engine(settings.database_url, **options)

    def measure(self, mode: Mode, count: int) -> Measured:
        """Accept `count` messages and wait until all went out. Commits.

        Raises:
            TooSlow: they do not go out in two minutes.
        """
        mark = secrets.token_hex(6)
        size = 1 if mode is Mode.SINGLES else BULK_SIZE
        parts = [range(first, min(first + size, count)) for first in range(0, count, size)]
        with Session(self._engine, expire_on_commit=False) as session:
            asker = self._asker(session)
        began = clock.monotonic()
        with ThreadPoolExecutor(PARALLEL) as pool:
            took = list(pool.map(partial(self._accept, mark, asker), parts))
        accepted = clock.monotonic()
        with Session(self._engine) as session:
            self._wait(session, mark, count)
        seconds = clock.monotonic() - began
        cuts = statistics.quantiles(took, n=20) if len(took) > 1 else took * 19
        return Measured(
            per_second=count / seconds,
            accepted_per_second=count / (accepted - began),
            p50_ms=statistics.median(took) * 1000,
            p95_ms=cuts[_PERCENT_95] * 1000,
        )

    def _accept(self, mark: str, asker: Asker, numbers: Sequence[int]) -> float:
        """Accept some messages in one request; return how many seconds that took."""
        asks = self._asks(mark, numbers)
        with Session(self._engine, expire_on_commit=False) as session:
            before = clock.monotonic()
            accept_all(session, asks, asker)
            return clock.monotonic() - before

    def close(self) -> None:
        """Give back the connections."""
        self._engine.dispose()

    def _asker(self, session: Session) -> Asker:
        session.execute(insert(Source).values(id=new_id(), name=SOURCE).on_conflict_do_nothing())
        source = find_source(session, SOURCE)
        session.commit()
        return Asker(source, f"source:{SOURCE}", self._settings)

    def _asks(self, mark: str, numbers: Sequence[int]) -> list[Ask]:
        limits = limits_of(self._settings)
        return [
            Ask(
                parse_request(
                    {
                        "channel": "email",
                        "to": f"bench-{number}@example.com",
                        "subject": f"Message {number}",
                        "text": "This is how long a usual message is. " * 20,
                        "labels": {"bench": mark},
                        "priority": "normal",
                    },
                    limits,
                ),
                key=f"{mark}-{number}",
                body_hash=mark,
            )
            for number in numbers
        ]

    @staticmethod
    def _wait(session: Session, mark: str, count: int) -> None:
        until = clock.monotonic() + PATIENCE_SECONDS
        under_way = [state for state in State if not state.is_done and state is not State.AWAITING]
        query = select(func.count()).where(
            Dispatch.labels.contains({"bench": mark}), Dispatch.state.in_(under_way)
        )
        while left := session.scalar(query):
            session.commit()
            if clock.monotonic() > until:
                raise TooSlow(
                    f"{left} of {count} messages did not go out in {PATIENCE_SECONDS:.0f} s."
                    " Is a worker running on the queue `default`? See wireroom doctor."
                )
            time.sleep(_LOOK_SECONDS)
        session.commit()


def memory_mb(pid: int) -> float:
    """Return the resident memory of a process in megabytes; 0 where it cannot be told."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return 0.0
