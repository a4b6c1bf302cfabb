"""The embedded PostgreSQL and Valkey by themselves: who may use them, and how they come back."""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis

from dashboard.embedded import binaries, postgres, valkey
from dashboard.embedded.process import Child, StartFailed, free_port, is_free
from dashboard.embedded.tether import is_alive
from tests.embedded.running import wait_until

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="about what root does")


@contextmanager
def running(server: postgres.Postgres | valkey.Valkey, folder: Path) -> Iterator[Child]:
    child = Child(server.program(log=folder / "log"))
    try:
        child.wait_ready()
        yield child
    finally:
        child.stop()


def query(server: postgres.Postgres, statement: str, password: str = "") -> object:
    url = server.url.replace("+psycopg", "").replace(server.password, password or server.password)
    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute(statement).fetchone()
        return row[0] if row else None


def make(folder: Path) -> postgres.Postgres:
    return postgres.prepare(folder, port=free_port(), durable=False)


def test_postgres_speaks_utf8_has_trigrams_and_listens_on_loopback(open_folder: Path) -> None:
    server = make(open_folder)
    with running(server, open_folder):
        assert query(server, "SHOW server_encoding") == "UTF8"
        assert query(server, "SHOW listen_addresses") == "127.0.0.1"
        assert query(server, "SHOW TimeZone") == "UTC"
        assert query(server, "SELECT upper('é')") == "É"
        assert query(server, "SELECT count(*) FROM pg_available_extensions WHERE name='pg_trgm'")
        assert (server.home / f".s.PGSQL.{server.port}").is_socket()


def test_postgres_refuses_a_wrong_password(open_folder: Path) -> None:
    server = make(open_folder)
    with running(server, open_folder), pytest.raises(psycopg.OperationalError, match="password"):
        query(server, "SELECT 1", "wrong")
    assert query_auth_methods(server) == {"scram-sha-256"}


def query_auth_methods(server: postgres.Postgres) -> set[str]:
    lines = (server.data / "pg_hba.conf").read_text().splitlines()
    return {line.split()[-1] for line in lines if line and not line.startswith("#")}


def test_the_passwords_are_private_and_on_no_command_line(open_folder: Path) -> None:
    database, store = make(open_folder), valkey.prepare(open_folder, port=free_port())
    for name in ("postgres_password", "valkey_password"):
        assert (open_folder / name).stat().st_mode & 0o777 == 0o600
    (open_folder / "v").mkdir()
    with running(database, open_folder) as first, running(store, open_folder / "v") as second:
        for child in (first, second):
            shown = Path(f"/proc/{child.pid}/cmdline").read_bytes().decode()
            assert database.password not in shown
            assert store.password not in shown


def test_postgres_stops_at_once_though_a_client_is_connected(open_folder: Path) -> None:
    server = make(open_folder)
    with running(server, open_folder) as child:
        client = psycopg.connect(server.url.replace("+psycopg", ""))
        child.ask_to_stop()
        wait_until(child.has_ended, 3)
        client.close()
    assert child.describe_end() == "ended with exit code 0"


def test_data_of_another_major_version_is_refused_and_left_alone(open_folder: Path) -> None:
    server = make(open_folder)
    (server.data / "PG_VERSION").write_text("17\n")

    with pytest.raises(StartFailed, match=r"PostgreSQL 17; .* PostgreSQL 18. Nothing was changed"):
        make(open_folder)


def test_a_cluster_that_was_cut_short_is_made_again(open_folder: Path) -> None:
    server = make(open_folder)
    server.data.rename(server.home / "data.new")
    (server.home / "data.new" / "PG_VERSION").unlink()

    again = make(open_folder)

    with running(again, open_folder):
        assert query(again, "SELECT 1") == 1


def test_postgres_starts_though_the_old_number_is_another_process_now(open_folder: Path) -> None:
    server = make(open_folder)
    stranger = subprocess.Popen(["/bin/sleep", "60"], user=server.user.uid if server.user else None)
    stale = [str(stranger.pid), str(server.data), "1", str(server.port), "", "127.0.0.1", "0 0"]
    (server.data / "postmaster.pid").write_text("\n".join([*stale, "ready   "]) + "\n")
    try:
        with running(server, open_folder):
            assert query(server, "SELECT 1") == 1
        assert is_alive(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


def test_postgres_starts_though_the_killed_one_is_still_a_zombie(open_folder: Path) -> None:
    server = make(open_folder)
    killed = Child(server.program(log=open_folder / "log"))
    killed.wait_ready()
    os.kill(killed.pid, signal.SIGKILL)  # nobody reaps it
    wait_until(lambda: not is_alive(killed.pid), 5)
    try:
        with running(server, open_folder):
            assert query(server, "SELECT 1") == 1
    finally:
        killed.kill()


def test_a_second_postgres_on_the_same_data_is_refused(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "_ORPHAN_SECONDS", 0.2)
    server = make(open_folder)
    with (
        running(server, open_folder) as child,
        pytest.raises(StartFailed, match=f"process {child.pid}"),
    ):
        Child(make(open_folder).program(log=open_folder / "log2"))


def test_valkey_keeps_everything_and_wants_its_password(open_folder: Path) -> None:
    server = valkey.prepare(open_folder, port=free_port())
    with running(server, open_folder):
        client = redis.Redis.from_url(server.url, decode_responses=True)
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert client.config_get("append*")["appendfsync"] == "everysec"
        assert client.info()["aof_enabled"] == 1
        client.set("kept", "42")
        client.close()
        with (
            redis.Redis(port=server.port) as stranger,
            pytest.raises(redis.AuthenticationError),
        ):
            stranger.ping()
    with running(server, open_folder), redis.Redis.from_url(server.url) as client:
        assert client.get("kept") == b"42"


def test_a_taken_port_is_not_free_and_another_one_is_given() -> None:
    port = free_port()
    assert is_free(port)
    assert free_port(port) == port
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import socket; s = socket.create_server(('127.0.0.1', {port}));"
            "print('up', flush=True); s.accept()",
        ],
        stdout=subprocess.PIPE,
    ) as taker:
        assert taker.stdout
        taker.stdout.readline()
        assert not is_free(port)
        assert free_port(port) not in (0, port)
        taker.kill()


def modes(path: Path) -> dict[Path, tuple[int, int]]:
    found = {each: each.stat() for each in (path, *path.parents)}
    return {each: (stat.st_mode, stat.st_uid) for each, stat in found.items()}


@only_root
def test_as_root_no_user_is_made_and_no_parent_is_opened(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = open_folder / "home"
    closed.mkdir(mode=0o700)
    data_dir = closed / "var"
    data_dir.mkdir()
    elsewhere = open_folder / "lib"
    monkeypatch.setattr(binaries, "SYSTEM_DIR", elsewhere)
    users, before = Path("/etc/passwd").read_text(), modes(data_dir)

    server = make(data_dir)
    with running(server, open_folder) as child:
        owner = Path(f"/proc/{child.pid}").stat().st_uid
        assert owner == pwd.getpwnam("nobody").pw_uid
        assert query(server, "SELECT 1") == 1

    assert modes(data_dir) == before
    assert Path("/etc/passwd").read_text() == users
    assert server.home.parent == elsewhere
    assert server.home.stat().st_mode & 0o777 == 0o700
    assert make(data_dir).home == server.home  # found again at the next start


@only_root
def test_as_root_programs_in_a_closed_folder_are_copied_out(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = binaries._package_folder(binaries.POSTGRES_PACKAGE).parent
    closed = open_folder / "closed"
    closed.mkdir(mode=0o700)
    for name in (binaries.POSTGRES_PACKAGE, f"{binaries.POSTGRES_PACKAGE}.libs"):
        subprocess.run(["/bin/cp", "-r", packages / name, closed / name], check=True)
    subprocess.run(["/bin/chmod", "-R", "go-rwx", closed], check=True)
    monkeypatch.setattr(binaries, "SYSTEM_DIR", open_folder / "lib")
    monkeypatch.setattr(
        binaries, "_package_folder", lambda name: closed / name if "postgres" in name else None
    )
    before = modes(closed)

    server = make(open_folder)
    with running(server, open_folder):
        assert query(server, "SELECT 1") == 1

    assert server.bin.is_relative_to(open_folder / "lib")
    assert modes(closed) == before


@only_root
def test_as_root_another_user_cannot_read_the_data(open_folder: Path) -> None:
    make(open_folder)
    daemon = pwd.getpwnam("daemon")
    read = subprocess.run(
        ["/bin/cat", open_folder / "postgres" / "data" / "PG_VERSION"],
        user=daemon.pw_uid,
        group=daemon.pw_gid,
        extra_groups=[],
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Permission denied" in read.stderr
