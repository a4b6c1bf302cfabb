"""Migrations are numbered, one chain, equal to the models, and can go down and up again."""

import re
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, text

from dashboard.database import Base
from tests.conftest import MIGRATIONS, Servers, migrate


@pytest.fixture
def empty_database(servers: Servers) -> Engine:
    name = "wireroom_migrations"
    admin = create_engine(servers.database_url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.execute(text(f"DROP DATABASE IF EXISTS {name}"))
        connection.execute(text(f"CREATE DATABASE {name}"))
    url = admin.url.set(database=name)
    admin.dispose()
    return create_engine(url, pool_size=1)


def test_the_files_are_numbered_in_one_chain() -> None:
    script = ScriptDirectory(str(MIGRATIONS))
    assert len(script.get_heads()) == 1
    names = sorted(path.name for path in (MIGRATIONS / "versions").glob("*.py"))
    assert [int(re.match(r"\d{4}", name).group()) for name in names] == list(
        range(1, len(names) + 1)
    )


def test_up_equals_the_models_and_down_and_up_again(empty_database: Engine) -> None:
    url = empty_database.url.render_as_string(hide_password=False)
    for _ in range(2):
        migrate(url)
        with empty_database.connect() as connection:
            assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        migrate(url, "base")
        with empty_database.connect() as connection:
            left = connection.execute(
                text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
            ).scalars()
            assert set(left) == {"alembic_version"}
    empty_database.dispose()


def test_migrations_wait_for_locks_only_for_a_while() -> None:
    source = Path(MIGRATIONS / "env.py").read_text()
    assert "lock_timeout" in source
    assert "statement_timeout" in source
