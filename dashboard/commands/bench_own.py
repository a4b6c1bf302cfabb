"""An installation for a benchmark alone: servers, workers, a mail server; gone when it ends."""

import asyncio
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope
from aiosmtpd.smtp import Session as Conversation

from dashboard.embedded.process import Child, Program, free_port
from dashboard.embedded.up import start_pair
from dashboard.providers.sandbox import address_file
from dashboard.settings import Settings, load_settings, raw_environment, use

PROVIDERS = ("null", "sandbox", "slow")
SLOW_SECONDS = 0.3


class _SlowServer:
    """Accepts every message and takes 300 ms for it."""

    async def handle_DATA(  # noqa: N802 - the name that aiosmtpd calls
        self,
        server: SMTP,  # noqa: ARG002 - aiosmtpd's shape
        session: Conversation,  # noqa: ARG002
        envelope: Envelope,  # noqa: ARG002
    ) -> str:
        """Take the message, later."""
        await asyncio.sleep(SLOW_SECONDS)
        return "250 2.0.0 taken, slowly"


@contextmanager
def own_installation(workers: int, provider: str) -> Iterator[tuple[Settings, Mapping[str, int]]]:
    """Yield settings and process ids by name; everything ends with the block.

    Args:
        workers: processes on the queue `default`.
        provider: `null`, `sandbox` (a real mail server), or `slow` (300 ms a message).
    """
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through the block's end, not past it
    folder = Path(tempfile.mkdtemp(prefix="wireroom-bench-"))
    folder.chmod(0o755)  # as root PostgreSQL runs as nobody, who has to pass through
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        database_url, redis_url, servers = start_pair(folder, durable=True)
        for server in reversed(servers):
            stack.callback(server.stop)
        environment = {
            **raw_environment(),
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "WIREROOM_DATA_DIR": str(folder),
            "WIREROOM_EMAIL_PROVIDER": provider,
        }
        if provider == "slow":
            environment |= {"WIREROOM_EMAIL_PROVIDER": "smtp", "SMTP_URL": _slow_server(stack)}
        subprocess.run(_wireroom("migrate"), env=environment, check=True)  # noqa: S603 - our own
        started = _start(stack, workers, environment, folder)
        settings = load_settings(
            _env_file=None, database_url=database_url, redis_url=redis_url, data_dir=folder
        )
        use(settings)
        children = [*servers, *started]
        yield settings, {child.program.name: child.pid for child in children}


def _slow_server(stack: ExitStack) -> str:
    port = free_port()
    controller = Controller(_SlowServer(), hostname="127.0.0.1", port=port)
    controller.start()
    stack.callback(controller.stop)
    return f"smtp://127.0.0.1:{port}?starttls=never"


def _start(
    stack: ExitStack, workers: int, environment: Mapping[str, str], folder: Path
) -> list[Child]:
    programs = []
    if environment["WIREROOM_EMAIL_PROVIDER"] == "sandbox":
        programs.append(_program("sandbox", ["sandbox"], environment, folder))
    for number in range(1, workers + 1):
        programs.append(_program(f"worker-{number}", ["worker", "default"], environment, folder))
    children = []
    for program in programs:
        child = Child(program)
        stack.callback(child.stop)
        children.append(child)
    for child in children:
        child.wait_ready()
    return children


def _program(
    name: str, arguments: list[str], environment: Mapping[str, str], folder: Path
) -> Program:
    log = folder / f"{name}.log"

    def is_ready(_pid: int) -> bool:
        if name == "sandbox":
            return address_file(folder).exists()
        return "worker ready" in log.read_text(errors="replace")

    return Program(
        name=name,
        command=tuple(_wireroom(*arguments)),
        environment=environment,
        log=log,
        is_ready=is_ready,
        ready_seconds=60.0,
    )


def _wireroom(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "dashboard.cli", *arguments]
