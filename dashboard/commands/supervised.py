"""Which processes `wireroom up` runs, in which order they start and stop, and how long each has.

Starts nothing itself: see `dashboard.embedded.up`.
"""

import http.client
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dashboard.embedded.process import Program
from dashboard.embedded.up import Application, Plan
from dashboard.providers.webhook_secrets import require_secrets
from dashboard.queueing.names import SENDING_QUEUES, Queue
from dashboard.settings import Settings, raw_environment

WEB_GRACE_SECONDS = 15.0
_SANDBOX_ROUTE = "sandbox"
_PERIODIC = (Queue.CLOCK, Queue.MAINTENANCE)

# The highest stage stops first: no new requests, no new tasks, running calls end, then what they
# need. The servers are stage 0 and 1.
_STAGE = {"sandbox": 2, "worker": 3, "scheduler": 4, "web": 5}


def plan(data_dir: Path, *, workers: int, demo: bool) -> Plan:
    """Return what decides on the processes once the servers and the web port are known.

    Args:
        data_dir: handed to every process, so that they find the embedded servers.
        workers: processes for the sending queues; each takes high before default before bulk.
        demo: fill the database with examples when everything runs.
    """
    environment = {**raw_environment(), "WIREROOM_DATA_DIR": str(data_dir.resolve())}
    environment["PYTHONUNBUFFERED"] = "1"

    def application(settings: Settings, port: int) -> Application:
        require_secrets(settings)
        return Application(
            before=(_wireroom(environment, "migrate"),),
            services=(
                *_sandbox(environment, settings),
                _web(environment, port),
                *_workers(environment, settings, workers),
                _staged(_wireroom(environment, "scheduler"), "scheduler"),
            ),
            after=(
                _wireroom(environment, "setup-link"),
                *([_wireroom(environment, "demo")] if demo else []),
            ),
        )

    return application


def _wireroom(environment: Mapping[str, str], *arguments: str, name: str = "") -> Program:
    # -P: a folder called "dashboard" where the operator stands must not be taken for ours.
    command = (sys.executable, "-P", "-m", "dashboard.cli", *arguments)
    return Program(name=name or arguments[0], command=command, environment=environment)


def _staged(program: Program, stage: str) -> Program:
    return replace(program, stage=_STAGE[stage])


def _sandbox(environment: Mapping[str, str], settings: Settings) -> tuple[Program, ...]:
    if _SANDBOX_ROUTE not in (settings.email_route, settings.sms_route):
        return ()
    return (_staged(_wireroom(environment, "sandbox"), "sandbox"),)


def _web(environment: Mapping[str, str], port: int) -> Program:
    program = _staged(_wireroom(environment, "web", "--port", str(port)), "web")
    return replace(
        program,
        is_ready=lambda _: answers(port),
        ready_seconds=60,
        grace_seconds=WEB_GRACE_SECONDS + 5,
    )


def _workers(environment: Mapping[str, str], settings: Settings, count: int) -> tuple[Program, ...]:
    sending = [(f"worker-{number}", SENDING_QUEUES) for number in range(1, count + 1)]
    periodic = [(f"worker-{queue}", (queue,)) for queue in _PERIODIC]
    # A running call may take the whole send deadline; its outcome is written after that.
    grace_seconds = settings.send_deadline_seconds + 10
    return tuple(
        replace(
            _staged(_wireroom(environment, "worker", *queues, name=name), "worker"),
            grace_seconds=grace_seconds,
        )
        for name, queues in (*sending, *periodic)
    )


def answers(port: int) -> bool:
    """Return whether the web process on that loopback port serves (it may lack its database)."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status < http.client.INTERNAL_SERVER_ERROR
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
