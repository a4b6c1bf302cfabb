"""The database session that a command works with, and what it says when there is none."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from sqlalchemy import create_engine
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from dashboard.database import engine_options
from dashboard.settings import SettingsInvalid, current


@contextmanager
def command_session() -> Iterator[Session]:
    """Give a session on the configured database; the command commits.

    Raises:
        SettingsInvalid: no database is configured and no embedded one runs.
        click.ClickException: it does not answer; nothing was changed then.
    """
    url = current().database_url
    if not url:
        raise SettingsInvalid(
            "DATABASE_URL is missing, and no embedded server runs. See README, Settings."
        )
    options = engine_options(pool_size=1, lock_timeout_ms=5000, statement_timeout_ms=15000)
    engine = create_engine(url, **options)
    try:
        with Session(engine, expire_on_commit=False) as session:
            yield session
    except OperationalError as error:
        raise click.ClickException(
            f"PostgreSQL cannot be used ({type(error.orig).__name__}). Nothing was changed."
            " Run: wireroom doctor"
        ) from None
    finally:
        engine.dispose()
