"""`wireroom web`: the web server (Granian), a parent process and one worker process by default."""

import click
from granian import Granian
from granian.constants import Interfaces
from granian.log import LogLevels

from dashboard.commands.supervised import WEB_GRACE_SECONDS
from dashboard.providers.webhook_secrets import require_secrets
from dashboard.settings import load_settings


@click.command()
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=8000, show_default=True)
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True)
@click.option("--threads", type=click.IntRange(1, 256), default=8, show_default=True)
def web(host: str, port: int, *, processes: int, threads: int) -> None:
    """Serve the dashboard, the API and the webhooks.

    SIGTERM lets running requests end.
    """
    require_secrets(load_settings())  # so that a wrong setting ends here, in a sentence
    Granian(
        "dashboard.commands.web_target:load",
        factory=True,
        address=host,
        port=port,
        interface=Interfaces.WSGI,
        workers=processes,
        blocking_threads=threads,
        respawn_failed_workers=True,
        workers_kill_timeout=int(WEB_GRACE_SECONDS),
        log_access=False,
        # At warning it advises against more threads than cores, which here wait for PostgreSQL.
        log_level=LogLevels.error,
    ).serve()
