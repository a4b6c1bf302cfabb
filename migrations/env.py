"""Run migrations against `DATABASE_URL` (or the embedded server), each in its own transaction."""

import logging

from alembic import context
from sqlalchemy import create_engine, text

import dashboard.dispatch.tables  # noqa: F401  all tables, so that autogenerate can compare
from dashboard.database import Base
from dashboard.settings import current

# A migration waits at most this long for a lock; the code of before goes on meanwhile.
LOCK_TIMEOUT = "5s"
STATEMENT_TIMEOUT = "15min"


def run() -> None:
    url = context.config.attributes.get("url") or current().database_url
    engine = create_engine(url)
    with engine.connect() as connection:
        connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
        connection.execute(text(f"SET statement_timeout = '{STATEMENT_TIMEOUT}'"))
        connection.commit()
        context.configure(
            connection=connection,
            target_metadata=Base.metadata,
            transaction_per_migration=True,
            compare_type=True,
        )
        with context.begin_transaction():
            context.run_migrations()
    engine.dispose()


logging.getLogger("alembic").setLevel(logging.WARNING)
run()
