"""`wireroom migrate`: brings the tables to this version.

Alembic and the tables take over a second to import, so a database that is up to date is recognised
without them: `wireroom up` waits for this command at every start.
"""

import importlib
import re
from pathlib import Path

import click
import psycopg

from dashboard.settings import SettingsInvalid, load_settings

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations"
_REVISION = re.compile(r'^revision(?:: str)? = "([^"]+)"', re.MULTILINE)


@click.command()
def migrate() -> None:
    """Bring the database to the newest version of the tables."""
    url = load_settings().database_url
    if not url:
        raise SettingsInvalid(
            "DATABASE_URL is missing, and no embedded server runs. See README, Settings."
        )
    try:
        current = is_current(url)
    except psycopg.Error as error:
        raise click.ClickException(
            f"PostgreSQL cannot be reached ({type(error).__name__}). Nothing was changed."
            " Run: wireroom doctor"
        ) from None
    if not current:
        upgrade = importlib.import_module("alembic.command").upgrade
        configuration = importlib.import_module("alembic.config").Config()
        configuration.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
        upgrade(configuration, "head")


def newest() -> str:
    """Return the revision that a database of this version is at: the last one by its number."""
    last = max((MIGRATIONS / "versions").glob("[0-9]*.py"))
    found = _REVISION.search(last.read_text())
    if found is None:
        raise LookupError(f"{last.name} names no revision")
    return found[1]


def is_current(database_url: str) -> bool:
    """Return whether the tables are of this version.

    Raises:
        psycopg.Error: when the database cannot be asked.
    """
    url = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
    with psycopg.connect(url, connect_timeout=10) as connection:
        try:
            rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        except psycopg.errors.UndefinedTable:
            return False
    return [row[0] for row in rows] == [newest()]
