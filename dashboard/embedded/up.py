"""Runs all of Wireroom on one machine: servers, migration, application, until it is told to stop.

Says nothing about which application processes there are: the caller names them.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from dashboard.embedded import postgres, tether, valkey
from dashboard.embedded.process import Child, Program, StartFailed, free_port, is_free
from dashboard.embedded.supervisor import StopRequested, Supervisor
from dashboard.settings import SERVERS_FILE, Settings, load_settings, read_servers_file

LOCK_FILE = "up.lock"
_EARLIER_SECONDS = 15.0


@dataclass(frozen=True)
class Application:
    """What runs beside the servers.

    Attributes:
        before: run to their end one after another, before anything else (the migration).
        services: started in this order, each once the one before answers; kept running.
        after: run to their end when the services answer; a failure is shown and changes nothing.
    """

    before: tuple[Program, ...] = ()
    services: tuple[Program, ...] = ()
    after: tuple[Program, ...] = ()


Plan = Callable[[Settings, int], Application]
"""Given the settings (with the servers' URLs) and the web port: what to run."""


def run(data_dir: Path, port: int, plan: Plan, say: Callable[[str], None]) -> int:
    """Run everything until SIGINT, SIGTERM or SIGHUP, and return the exit code.

    Args:
        data_dir: made if missing; one `up` runs on it at a time, a second one says so.
        port: the web port on loopback; 0 takes a free one.
        plan: names the application's processes.
        say: shows a line to the operator.

    Raises:
        SettingsInvalid: when the environment cannot be used.
    """
    _make_data_dir(data_dir)
    try:
        lock = _take_lock(data_dir)
        if lock is None:
            say(_describe_running(data_dir))
            return 0
        return _Up(data_dir, plan, say, lock).run(port)
    except StartFailed as error:
        say(str(error))
        return 1


class _Up:
    """One run, which holds the lock of the data directory."""

    def __init__(self, data_dir: Path, plan: Plan, say: Callable[[str], None], lock: int) -> None:
        self.data_dir = data_dir
        self.plan = plan
        self.say = say
        self.known: dict[str, object] = {}
        earlier = read_servers_file(data_dir)
        self.earlier_ports = {
            name: urlsplit(earlier.get(name, "")).port or 0
            for name in ("database_url", "redis_url")
        }
        (data_dir / SERVERS_FILE).unlink(missing_ok=True)  # left by a kill -9; its URLs are dead
        self.supervisor = Supervisor(say, keep_open=(lock,), on_change=self.write_servers_file)

    def run(self, port: int) -> int:
        """Start, watch, stop; return the exit code."""
        with self.supervisor.signals():
            try:
                self.start(_web_port(port))
                self.supervisor.run()
            except StartFailed as error:
                self.say(str(error))
                return 1
            except StopRequested:
                pass
            finally:
                self.say("Stopping …")
                self.supervisor.stop()
                (self.data_dir / SERVERS_FILE).unlink(missing_ok=True)
                self.say("Stopped.")
        return 0

    def start(self, port: int) -> None:
        """Bring everything up, in order."""
        began = time.monotonic()
        settings = load_settings(data_dir=self.data_dir)
        base_url = settings.public_base_url or f"http://127.0.0.1:{port}"
        self.start_postgres(settings)
        self.start_valkey(settings)
        self.known["public_base_url"] = base_url
        self.write_servers_file()
        application = self.plan(load_settings(data_dir=self.data_dir), port)
        for program in application.before:
            self.say(f"Running {program.name} …")
            self.supervisor.run_once(program)
        for program in application.services:
            self.say(f"Starting {program.name} …")
            self.supervisor.start(program)
        self.say(f"Wireroom runs at {base_url} (started in {time.monotonic() - began:.1f} s).")
        for program in application.after:
            self.run_after(program)
        self.say("Press Ctrl-C to stop it.")

    def run_after(self, program: Program) -> None:
        """Run what only adds to a system that is up already."""
        try:
            self.supervisor.run_once(program)
        except StartFailed as error:
            self.say(str(error))

    def start_postgres(self, settings: Settings) -> None:
        """Start the embedded PostgreSQL, unless another one is set."""
        if settings.database_url:
            self.say("Using the PostgreSQL of DATABASE_URL.")
            return
        self.say("Starting PostgreSQL …")
        port = free_port(self.earlier_ports["database_url"])
        server = postgres.prepare(self.data_dir, port=port)
        self.known["database_url"] = server.url
        self.supervisor.start(server.program(log=self.data_dir / "postgres.log"))

    def start_valkey(self, settings: Settings) -> None:
        """Start the embedded Valkey, unless another one is set."""
        if settings.redis_url:
            self.say("Using the Redis of REDIS_URL.")
            return
        self.say("Starting Valkey …")
        port = free_port(self.earlier_ports["redis_url"])
        server = valkey.prepare(self.data_dir, port=port)
        self.known["redis_url"] = server.url
        self.supervisor.start(server.program(log=self.data_dir / "valkey.log"))

    def write_servers_file(self, pids: dict[str, int] | None = None) -> None:
        """Write down what runs (0600, replaced whole) for the other commands to find."""
        if pids is not None:
            self.known["pids"] = {"supervisor": os.getpid(), **pids}
        draft = self.data_dir / f".{SERVERS_FILE}"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(self.known, file, indent=2)
        draft.replace(self.data_dir / SERVERS_FILE)


def _make_data_dir(data_dir: Path) -> None:
    """Make the data directory passable, whatever the umask: what it holds protects itself."""
    try:
        data_dir.mkdir(parents=True)
    except FileExistsError:
        return
    data_dir.chmod(0o755)


def _take_lock(data_dir: Path) -> int | None:
    """Return the lock of the data directory, or None when another `up` runs on it.

    Every child inherits it, so it is free only when nothing of an earlier run is left.

    Raises:
        StartFailed: when the earlier supervisor is gone but something of it stays on.
    """
    lock = os.open(data_dir / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + _EARLIER_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _lock_owner(data_dir)
            if owner and tether.is_alive(owner):
                os.close(lock)
                return None
            if time.monotonic() > until:
                raise StartFailed(
                    f"An earlier start (process {owner}) is gone, but something that it started"
                    f" still runs on {data_dir.resolve()}."
                    f" Find it with: fuser {data_dir / LOCK_FILE}"
                ) from None
            time.sleep(0.05)
        else:
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)
            return lock


def _lock_owner(data_dir: Path) -> int:
    content = (data_dir / LOCK_FILE).read_text().strip()
    return int(content) if content.isdigit() else 0


def _describe_running(data_dir: Path) -> str:
    servers: dict[str, object] = {**read_servers_file(data_dir)}
    pids = servers.get("pids")
    if not isinstance(pids, dict) or "public_base_url" not in servers:
        return (
            f"Wireroom is just starting on {data_dir.resolve()} (process {_lock_owner(data_dir)})."
        )
    listed = ", ".join(f"{name} {pid}" for name, pid in pids.items())
    return (
        f"Wireroom already runs at {servers['public_base_url']} on {data_dir.resolve()}."
        f"\nProcesses: {listed}."
        f"\nStop it with Ctrl-C in its terminal, or: kill {pids['supervisor']}"
    )


def _web_port(port: int) -> int:
    """Return the port to serve on.

    Raises:
        StartFailed: when another program has it, with what to do.
    """
    if port and not is_free(port):
        raise StartFailed(
            f"Port {port} is taken by another program. Choose another one, such as"
            f" --port {port + 1}, or --port 0 for any free one."
        )
    return port or free_port()


def start_pair(data_dir: Path, *, durable: bool) -> tuple[str, str, list[Child]]:
    """Start the two embedded servers alone, without a supervisor (for tests).

    Args:
        data_dir: an existing folder that everybody may pass through.
        durable: False trades safety at a power cut for speed.

    Returns:
        The database URL, the Redis URL, and the children for the caller to stop, first one first.
    """
    database = postgres.prepare(data_dir, port=free_port(), durable=durable)
    options = {} if durable else {"fsync": "off", "synchronous_commit": "off"}
    children = [Child(database.program(log=data_dir / "postgres.log", options=options))]
    redis = valkey.prepare(data_dir, port=free_port())
    children.insert(0, Child(redis.program(log=data_dir / "valkey.log")))
    for child in children:
        child.wait_ready()
    return database.url, redis.url, children
