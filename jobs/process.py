"""What a worker process has once: the application, its name, its sender.

Made at the first use, so that a plain `rq worker` without our class works as well.
"""

import os
import secrets
import socket
from functools import lru_cache

from flask import Flask

from dashboard.app import create_app
from dashboard.database import engine_options
from dashboard.settings import current
from jobs.sender import Sender

LOCK_TIMEOUT_MS = 5000
STATEMENT_TIMEOUT_MS = 20000


@lru_cache(maxsize=1)
def application() -> Flask:
    """Return this process's application, with the few connections that a worker needs."""
    options = engine_options(
        pool_size=2, lock_timeout_ms=LOCK_TIMEOUT_MS, statement_timeout_ms=STATEMENT_TIMEOUT_MS
    )
    return create_app(current(), engine=dict(options))


@lru_cache(maxsize=1)
def worker_name() -> str:
    """Return this process's name: random, since RQ refuses a name twice."""
    return f"{socket.gethostname()[:24]}-{os.getpid()}-{secrets.token_hex(2)}"


@lru_cache(maxsize=1)
def sender() -> Sender:
    """Return this process's sender; needs an application context for what was spooled."""
    return Sender(current(), worker_name())
