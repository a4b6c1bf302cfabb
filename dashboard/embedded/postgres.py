"""The embedded PostgreSQL: makes its cluster once, and says how to run it.

As root it runs as `nobody`: no user is created and no permission of an existing folder is changed.
"""

import hashlib
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from dashboard.embedded import binaries, tether
from dashboard.embedded.process import Program, StartFailed, User

MAJOR = "18"
DATABASE = "wireroom"
_ROLE = "wireroom"
_LOCALE = "en_US.UTF-8" if sys.platform == "darwin" else "C.UTF-8"
_SOCKET_PATH_MAX = 90  # the kernel takes 107 bytes with the socket's own name
_ORPHAN_SECONDS = 10.0


@dataclass(frozen=True)
class Postgres:
    """A cluster on this machine, run on loopback and on a socket beside its data."""

    home: Path
    bin: Path
    user: User | None
    password: str
    port: int

    @property
    def data(self) -> Path:
        """The folder that PostgreSQL calls its data directory."""
        return self.home / "data"

    @property
    def url(self) -> str:
        """How the application connects; holds the password."""
        return f"postgresql+psycopg://{_ROLE}:{self.password}@127.0.0.1:{self.port}/{DATABASE}"

    def program(self, *, log: Path, options: dict[str, str] | None = None) -> Program:
        """Return how to run it.

        Stops by SIGINT ("fast"): SIGTERM would wait for every client to leave. Orphaned, it does
        the same, so that its next start needs no recovery.

        Args:
            log: where its own lines go.
            options: settings of postgresql.conf that win over ours (tests switch fsync off).
        """
        socket_folder = str(self.home) if len(os.fsencode(self.home)) <= _SOCKET_PATH_MAX else ""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": socket_folder,
            "unix_socket_permissions": "0700",
            "timezone": "UTC",
            "log_timezone": "UTC",
        } | (options or {})
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Program(
            name="postgres",
            command=(str(self.bin / "postgres"), "-D", str(self.data), *arguments),
            user=self.user,
            log=log,
            is_ready=self.is_ready,
            ready_seconds=120.0,  # recovery after a power cut can take a while
            stop_signal=signal.SIGINT,
            grace_seconds=60.0,
            orphan_signal=signal.SIGINT,
            before_start=self.clear_stale_lock,
        )

    def is_ready(self, pid: int) -> bool:
        """Return whether the postmaster `pid` takes connections, by its own status line."""
        lines = _lock_lines(self.data)
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def clear_stale_lock(self) -> None:
        """Make the lock file of a postmaster that was killed no obstacle to the next one.

        PostgreSQL sees to it itself unless the old number belongs to a zombie or, by now, to
        another process; then it would refuse to start until somebody deletes the file by hand. The
        file is not deleted here: its shared memory line keeps a new postmaster away from backends
        that the old one left. Its first line becomes our number, which a postmaster takes for stale
        because it is its parent's. The socket's lock holds no more than the number and can go.

        Raises:
            StartFailed: when the earlier postmaster still works on this data after 10 s.
        """
        until = time.monotonic() + _ORPHAN_SECONDS
        while lines := _lock_lines(self.data):
            pid = int(lines[0])
            if not tether.is_alive(pid) or not _works_in(pid, self.data):
                (self.data / "postmaster.pid").write_text(
                    "\n".join([str(os.getpid()), *lines[1:]]) + "\n"
                )
                for socket_lock in self.home.glob(".s.PGSQL.*.lock"):
                    socket_lock.unlink()
                return
            if time.monotonic() > until:
                raise StartFailed(
                    f"Another PostgreSQL (process {pid}) already works on {self.data}."
                    f" Stop what started it, or end it with: kill -INT {pid}"
                )
            time.sleep(0.05)


def prepare(data_dir: Path, *, port: int, durable: bool = True) -> Postgres:
    """Return the cluster of `data_dir`, made now if there is none (1 s).

    Args:
        data_dir: Wireroom's data directory; the password is kept there, readable by its owner only.
        port: the loopback port it will listen on.
        durable: False skips the flush to disk while it is made (tests).

    Raises:
        StartFailed: when it cannot be made, or was made by another major version.
    """
    user = _unprivileged()
    home = _home(data_dir, user)
    postgres = Postgres(
        home=home,
        bin=binaries.postgres_bin(user),
        user=user,
        password=secret_in(data_dir / "postgres_password"),
        port=port,
    )
    version = postgres.data / "PG_VERSION"
    if not version.exists():
        _make_cluster(postgres, durable=durable)
    elif (found := version.read_text().strip()) != MAJOR:
        raise StartFailed(
            f"The data in {postgres.data} belongs to PostgreSQL {found}; this version of Wireroom"
            f" brings PostgreSQL {MAJOR}. Nothing was changed. Dump it with pg_dump {found} and"
            " restore it into a new data directory, or set DATABASE_URL to a server that has it."
        )
    return postgres


def secret_in(path: Path) -> str:
    """Return the secret of that file, made and written (0600) if there is none."""
    if not path.exists():
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_urlsafe(32))
        draft.replace(path)
    return path.read_text().strip()


def _unprivileged() -> User | None:
    """Return `nobody` where this process is root, which PostgreSQL refuses to run as."""
    if os.geteuid() != 0:
        return None
    nobody = pwd.getpwnam("nobody")
    return User(nobody.pw_uid, nobody.pw_gid)


def _home(data_dir: Path, user: User | None) -> Path:
    """Return the folder of the cluster and its socket, made if missing, owned by its user, 0700."""
    home = data_dir.resolve() / "postgres"
    if user and not _can_be_reached(home.parent):
        digest = hashlib.sha256(os.fsencode(home.parent)).hexdigest()[:16]
        home = binaries.SYSTEM_DIR / digest
        binaries.open_folder(home.parent)
    if not home.is_dir():
        home.mkdir(mode=0o700)
        if user:
            os.chown(home, user.uid, user.gid)
    return home


def _can_be_reached(folder: Path) -> bool:
    """Return whether everybody may pass through that folder and all that it lies in."""
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def _make_cluster(postgres: Postgres, *, durable: bool) -> None:
    draft = postgres.home / "data.new"
    shutil.rmtree(draft, ignore_errors=True)  # of a start that was cut short
    password_file = postgres.home / ".password"
    descriptor = os.open(password_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(postgres.password)
    if postgres.user:
        os.chown(password_file, postgres.user.uid, postgres.user.gid)
    initdb = ["initdb", "-D", str(draft), "-U", _ROLE, "-E", "UTF8", f"--locale={_LOCALE}"]
    initdb += ["-A", "scram-sha-256", f"--pwfile={password_file}"]
    initdb += [] if durable else ["--no-sync"]
    try:
        _run(postgres, initdb)
    finally:
        password_file.unlink()
    single = ["postgres", "--single", "-D", str(draft), "postgres"]
    single += [] if durable else ["-c", "fsync=off"]
    _run(postgres, single, f"CREATE DATABASE {DATABASE}\n")
    draft.rename(postgres.data)  # last, so that a cluster is complete or absent


def _run(postgres: Postgres, command: list[str], given: str = "") -> None:
    user = postgres.user
    done = subprocess.run(  # noqa: S603 - PostgreSQL's own programs
        [postgres.bin / command[0], *command[1:]],
        input=given,
        cwd=postgres.home,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
        preexec_fn=tether.tie(signal.SIGKILL),
        user=user.uid if user else None,
        group=user.gid if user else None,
        extra_groups=[] if user else None,
    )
    # Single-user mode ends with 0 whatever the statement did: its errors are on its output only.
    if done.returncode != 0 or "ERROR:" in done.stderr:
        raise StartFailed(f"PostgreSQL's {command[0]} failed: {done.stderr.strip()[-500:]}")


def _lock_lines(data: Path) -> list[str]:
    try:
        return (data / "postmaster.pid").read_text().splitlines()
    except OSError:
        return []


def _works_in(pid: int, data: Path) -> bool:
    """Return whether that process is a PostgreSQL on this data: it makes the folder its own."""
    try:
        return Path(f"/proc/{pid}/cwd").resolve(strict=True) == data.resolve()
    except OSError:
        return not tether.KERNEL_TIES  # without /proc: believe the lock file
