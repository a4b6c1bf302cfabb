"""One installation as a story sees it: servers, a mail server, processes, and the rows."""

import os
import shutil
import signal
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from dashboard.database import Base
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.states import Hold
from dashboard.embedded.process import Child
from dashboard.embedded.up import start_pair
from dashboard.queueing.connection import redis_connection
from dashboard.queueing.publish import publish
from dashboard.settings import Settings, load_settings
from tests.conftest import migrate
from tests.factories import make_dispatch, make_source
from tests.processes import Processes, processes, wait_until
from tests.sink import Sink, sink

# The windows of an installation, made small enough for a test; stamps follow WORKER_GONE_SECONDS.
SHORT = {
    "WIREROOM_EMAIL_PROVIDER": "smtp",
    "WIREROOM_SMS_PROVIDER": "null",
    "WIREROOM_LOST_JOB_SECONDS": "1.5",
    "WIREROOM_WORKER_GONE_SECONDS": "1.5",
    "WIREROOM_SEND_DEADLINE_SECONDS": "30",
    "WIREROOM_RETRY_BASE_SECONDS": "0.2",
    "WIREROOM_RECONCILE_SECONDS": "0.4",
    "WIREROOM_RELEASE_SECONDS": "0.3",
}


@dataclass
class Installation:
    """What a story acts on and looks at; every look is a new transaction."""

    settings: Settings
    engine: Engine
    sink: Sink
    processes: Processes

    def queue(self, count: int = 1, *, source: dict[str, Any] | None = None) -> list[uuid.UUID]:
        """Commit that many queued emails, as if each was published now; publishes nothing."""
        with Session(self.engine) as session:
            owner = make_source(session, **(source or {}))
            rows = [
                make_dispatch(session, source=owner, recipient=f"p{number}@example.com").id
                for number in range(count)
            ]
            session.commit()
        return rows

    def publish(self, ids: Sequence[uuid.UUID], *, one_by_one: bool = False) -> None:
        """Put their jobs on the default queue."""
        for some in [[one] for one in ids] if one_by_one else [ids]:
            publish("default", some, self.settings)

    def send(self, count: int = 1, **values: Any) -> list[uuid.UUID]:
        """Commit and publish that many emails."""
        ids = self.queue(count, **values)
        self.publish(ids)
        return ids

    def states(self) -> dict[str, int]:
        """How many dispatches are in which state."""
        with Session(self.engine) as session:
            query = select(Dispatch.state, func.count()).group_by(Dispatch.state)
            return {state.value: count for state, count in session.execute(query)}

    def holds(self) -> dict[Hold, int]:
        """How many dispatches are held by what."""
        with Session(self.engine) as session:
            query = select(Dispatch.hold, func.count()).group_by(Dispatch.hold)
            return dict(session.execute(query).all())

    def all(self, table: type[Base]) -> list[Any]:
        """Every row of a table."""
        with Session(self.engine) as session:
            return list(session.scalars(select(table)))

    def row(self, dispatch_id: uuid.UUID) -> Dispatch:
        """One dispatch as it is now."""
        with Session(self.engine) as session:
            return session.get_one(Dispatch, dispatch_id)

    def attempts(self, dispatch_id: uuid.UUID) -> list[Attempt]:
        """Its attempts, oldest first."""
        with Session(self.engine) as session:
            query = select(Attempt).where(Attempt.dispatch_id == dispatch_id)
            return list(session.scalars(query.order_by(Attempt.number)))

    def history(self, dispatch_id: uuid.UUID) -> list[Transition]:
        """Its history, oldest first."""
        with Session(self.engine) as session:
            query = select(Transition).where(Transition.dispatch_id == dispatch_id)
            return list(session.scalars(query.order_by(Transition.id)))

    def wait(self, condition: Callable[[], bool], seconds: float = 15) -> None:
        """Wait for a condition; on failure show states, histories and logs."""
        wait_until(condition, seconds, self.explain)

    def wait_for_states(self, seconds: float = 15, **wanted: int) -> None:
        """Wait until the dispatches are in exactly these states."""
        self.wait(lambda: self.states() == wanted, seconds)

    def explain(self) -> str:
        """What a failed story is judged by."""
        arrived = Counter(self.sink.counts().values())
        return f"arrived {arrived}\n{self._recent()}\n{self.processes.logs()}"

    def _recent(self) -> str:
        query = select(Transition).order_by(Transition.id.desc()).limit(40)
        try:
            with Session(self.engine) as session:
                recent = list(session.scalars(query))
        except OperationalError as error:
            return str(error)
        lines = [
            f"{line.at} {line.dispatch_id} {line.state_from}>{line.state_to}"
            f" {line.trigger} {line.actor} {line.note}"
            for line in reversed(recent)
        ]
        return "\n".join([str(self.states()), *lines])


@contextmanager
def installation(settings: Settings, folder: Path) -> Iterator[Installation]:
    """An installation on servers that run and are migrated; its processes end with the block."""
    engine = create_engine(settings.database_url, pool_size=25, pool_pre_ping=True)
    with sink() as mail:
        environment = {
            **SHORT,
            "DATABASE_URL": settings.database_url,
            "REDIS_URL": settings.redis_url,
            "WIREROOM_DATA_DIR": str(folder),
            "SMTP_URL": mail.url(),
        }
        with processes(environment, folder) as some:
            try:
                yield Installation(settings, engine, mail, some)
            finally:
                mail.close()
    engine.dispose()


@pytest.fixture
def here(app: Flask, settings: Settings, tmp_path: Path) -> Iterator[Installation]:
    """An installation on the session's servers, with empty tables and an empty Redis."""
    redis_connection(settings).ping()
    with installation(settings, tmp_path) as place:
        yield place


class OwnServers:
    """A PostgreSQL and a Valkey of one test, to be killed and started again on the same ports."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.database_url, self.redis_url, (self.valkey, self.postgres) = start_pair(
            data_dir, durable=True
        )

    def kill_postgres(self) -> None:
        """End it as an immediate shutdown does: every connection breaks, nothing is flushed."""
        os.kill(self.postgres.pid, signal.SIGQUIT)
        wait_until(self.postgres.has_ended)

    def start_postgres(self) -> None:
        self.postgres = Child(self.postgres.program)
        self.postgres.wait_ready()

    def kill_valkey(self, *, with_its_data: bool = False) -> None:
        self.valkey.kill()
        if with_its_data:
            shutil.rmtree(self.data_dir / "valkey" / "appendonlydir")

    def start_valkey(self) -> None:
        self.valkey = Child(self.valkey.program)
        self.valkey.wait_ready()

    def end(self) -> None:
        self.valkey.kill()
        self.postgres.kill()


@pytest.fixture
def own_servers() -> Iterator[OwnServers]:
    """Servers that the test may kill, migrated; gone at its end."""
    # Not pytest's own folder: as root PostgreSQL runs as nobody, who cannot pass through 0700.
    data_dir = Path(tempfile.mkdtemp(prefix="wireroom-faults-"))
    data_dir.chmod(0o755)
    try:
        servers = OwnServers(data_dir)
        try:
            migrate(servers.database_url)
            yield servers
        finally:
            servers.end()
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture
def apart(own_servers: OwnServers, tmp_path: Path) -> Iterator[Installation]:
    """An installation on servers of its own."""
    settings = load_settings(
        _env_file=None,
        database_url=own_servers.database_url,
        redis_url=own_servers.redis_url,
        data_dir=tmp_path,
    )
    with installation(settings, tmp_path) as place:
        yield place
