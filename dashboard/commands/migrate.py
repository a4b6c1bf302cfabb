"""`wireroom migrate`: brings the tables to this version."""

from pathlib import Path

import click
from alembic import command as alembic
from alembic.config import Config
from alembic.script import ScriptDirectory

from dashboard.settings import load_settings


def configuration() -> Config:
    """Return Alembic's configuration; there is no `alembic.ini`."""
    config = Config()
    folder = Path(__file__).resolve().parents[2] / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    return config


def newest() -> set[str]:
    """Return the revision that a database of this version is at."""
    return set(ScriptDirectory.from_config(configuration()).get_heads())


@click.command()
def migrate() -> None:
    """Bring the database to the newest version of the tables."""
    load_settings()
    alembic.upgrade(configuration(), "head")
