"""The commands that run something until it is told to stop; the web server has `web.py`.

Starts workers and the scheduler by import path: `dashboard` never imports `jobs`.
"""

import importlib
import sys
from pathlib import Path

import click

from dashboard.commands import supervised
from dashboard.embedded import up as everything
from dashboard.settings import load_settings

_PORT = click.IntRange(0, 65535)


@click.command()
@click.option("--port", type=_PORT, default=8000, show_default=True, help="0: any free one.")
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the servers and files live.  [default: WIREROOM_DATA_DIR, or var]",
)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=2,
    show_default=True,
    help="Processes for high, default and bulk; clock and maintenance get one each.",
)
@click.option("--demo", is_flag=True, help="Fill it with example dispatches.")
def up(*, port: int, data_dir: Path | None, workers: int, demo: bool) -> None:
    """Run everything here: servers, migration, web, workers, scheduler.

    PostgreSQL and Valkey are started too, unless DATABASE_URL and REDIS_URL are set. What dies is
    started again. Ctrl-C stops it all in order. Exits with 0 when it already runs.
    """
    folder = data_dir or load_settings().data_dir
    plan = supervised.plan(folder, workers=workers, demo=demo)
    sys.exit(everything.run(folder, port, plan, click.echo))


@click.command()
@click.argument("queues", nargs=-1, required=True, metavar="QUEUE…")
def worker(queues: tuple[str, ...]) -> None:
    """Send what is on these queues: high, default, bulk, clock, maintenance.

    One queue per process is the safe rule in production. SIGTERM lets running calls end.
    """
    sys.exit(importlib.import_module("jobs.worker").main(list(queues)))


@click.command()
def scheduler() -> None:
    """Queue the periodic tasks when they are due. Two may run at once."""
    sys.exit(importlib.import_module("jobs.schedule").main())


@click.command()
def sandbox() -> None:
    """Run the stand-ins for a mail server and for Twilio (development)."""
    sys.exit(importlib.import_module("dashboard.providers.sandbox_server").main())
