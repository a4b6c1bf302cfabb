"""`wireroom migrate` from an empty database, and again when there is nothing to do."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from dashboard.commands.migrate import MIGRATIONS, is_current, newest
from tests.conftest import Servers


@pytest.fixture
def empty_database(servers: Servers) -> Iterator[str]:
    plain = servers.database_url.replace("+psycopg", "")
    name = "wireroom_migrate_command"
    with psycopg.connect(plain, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
        yield servers.database_url.rpartition("/")[0] + f"/{name}"
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def migrate(url: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dashboard.cli", "migrate"],
        env={**os.environ, "DATABASE_URL": url, "WIREROOM_DATA_DIR": str(data_dir)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_the_newest_revision_by_number_is_alembics_head() -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))

    assert ScriptDirectory.from_config(config).get_heads() == [newest()]


def test_an_empty_database_is_migrated_and_a_second_run_is_quick(
    empty_database: str, tmp_path: Path
) -> None:
    assert not is_current(empty_database)
    first = migrate(empty_database, tmp_path)
    assert first.returncode == 0, first.stderr
    assert is_current(empty_database)

    began = time.monotonic()
    assert migrate(empty_database, tmp_path).returncode == 0
    assert time.monotonic() - began < 3


def test_an_unreachable_database_ends_with_1_and_a_sentence(tmp_path: Path) -> None:
    done = migrate("postgresql+psycopg://a:s3cret@127.0.0.1:1/x", tmp_path)

    assert done.returncode == 1
    assert "PostgreSQL cannot be reached" in done.stderr
    assert "s3cret" not in done.stderr
