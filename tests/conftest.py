"""Real servers for every test: one PostgreSQL and one Valkey per pytest session."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from flask import Flask
from flask.testing import FlaskClient
from hypothesis import settings as hypothesis_settings
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as current_settings
from dashboard.app import create_app
from dashboard.database import Base, db
from dashboard.embedded.up import start_pair
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings, load_settings

MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"


# The same stories in every run; `--hypothesis-profile=long` tells more and longer ones.
hypothesis_settings.register_profile(
    "short", max_examples=100, stateful_step_count=25, deadline=None, derandomize=True
)
hypothesis_settings.register_profile(
    "long", max_examples=600, stateful_step_count=50, deadline=None, derandomize=True
)
hypothesis_settings.load_profile("short")


def migrate(url: str, revision: str = "head") -> None:
    """Bring a database to a revision."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.attributes["url"] = url
    if revision == "head":
        command.upgrade(config, revision)
    else:
        command.downgrade(config, revision)


@dataclass(frozen=True)
class Servers:
    """Where the session's servers are."""

    database_url: str
    redis_url: str
    data_dir: Path


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The servers of DATABASE_URL and REDIS_URL if both are set, else embedded ones."""
    # Not pytest's own folder: as root PostgreSQL runs as nobody, who cannot pass through 0700.
    data_dir = Path(tempfile.mkdtemp(prefix="wireroom-tests-"))
    data_dir.chmod(0o755)
    given = os.environ.get("DATABASE_URL", ""), os.environ.get("REDIS_URL", "")
    try:
        if all(given):
            yield Servers(*given, data_dir)
            return
        database_url, redis_url, children = start_pair(data_dir, durable=False)
        try:
            yield Servers(database_url, redis_url, data_dir)
        finally:
            for child in children:
                child.kill()
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture(scope="session")
def settings(servers: Servers) -> Settings:
    """Settings that point at the session's servers; `.env` is not read."""
    return load_settings(
        _env_file=None,
        database_url=servers.database_url,
        redis_url=servers.redis_url,
        data_dir=servers.data_dir,
    )


@pytest.fixture(scope="session")
def database(settings: Settings) -> Iterator[Engine]:
    """The session's database, migrated; an engine for second connections."""
    current_settings.use(settings)
    migrate(settings.database_url)
    engine = create_engine(settings.database_url, pool_size=20)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def _application(settings: Settings, database: Engine) -> Iterator[Flask]:
    app = create_app(settings)
    app.config.update(TESTING=True, RATELIMIT_ENABLED=False)
    yield app
    with app.app_context():
        db.engine.dispose()


@pytest.fixture
def clean(database: Engine, settings: Settings) -> None:
    """Empty tables and an empty Redis; nothing of another test is left."""
    names = ", ".join(f'"{table.name}"' for table in Base.metadata.sorted_tables)
    with database.begin() as connection:
        connection.execute(text(f"TRUNCATE {names} CASCADE"))
    redis_connection(settings).flushall()


@pytest.fixture
def app(_application: Flask, clean: None) -> Iterator[Flask]:
    """The application in an application context, on empty tables."""
    with _application.app_context():
        yield _application
        db.session.remove()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A browser without a session."""
    return app.test_client()


@pytest.fixture
def session(app: Flask) -> scoped_session[Session]:
    """The application's database session."""
    return db.session
