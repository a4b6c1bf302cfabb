"""The only reader of the process's clock.

Decisions about rows use the database's clock (`dashboard.database.database_now`); this one is for
log lines, cookies and deadlines inside one process.
"""

import time
from datetime import UTC, datetime


def now() -> datetime:
    """Return the current moment, aware, in UTC."""
    return datetime.now(UTC)


def monotonic() -> float:
    """Return seconds on a clock that never jumps, for measuring how long something took."""
    return time.monotonic()
