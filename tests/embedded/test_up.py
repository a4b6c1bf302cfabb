"""`wireroom up` from its first start to `kill -9`, with real servers and small programs."""

import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import redis

from dashboard.embedded.tether import is_alive
from tests.conftest import Servers
from tests.embedded.running import Run, wait_until

Start = Callable[..., Run]


def connect(run: Run) -> psycopg.Connection:
    url = str(run.servers()["database_url"]).replace("+psycopg", "")
    return psycopg.connect(url, connect_timeout=5)


def start_and_wait(small_up: Start, *arguments: str, **environment: str) -> Run:
    run = small_up(*arguments, **environment)
    run.wait_for("Press Ctrl-C")
    return run


def test_a_cold_start_brings_everything_up_in_order_and_says_where(small_up: Start) -> None:
    run = start_and_wait(small_up)

    wait_until(lambda: len(run.story()) == 5)
    assert run.story()[:3] == ["ran migrate", "start web", "start web-worker"]
    assert set(run.story()[3:]) == {"start worker", "start scheduler"}
    servers = run.servers()
    assert f"Wireroom runs at {servers['public_base_url']}" in run.text()
    assert "the setup link" in run.text()
    assert (run.data_dir / "servers.json").stat().st_mode & 0o777 == 0o600
    with connect(run) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert redis.Redis.from_url(str(servers["redis_url"])).ping()
    assert set(run.pids()) == {"supervisor", "postgres", "valkey", "web", "worker", "scheduler"}


def test_what_was_stored_is_there_after_a_stop_and_a_warm_start(small_up: Start) -> None:
    first = start_and_wait(small_up)
    with connect(first) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS number")
    redis.Redis.from_url(str(first.servers()["redis_url"])).set("kept", "42")
    first.process.send_signal(signal.SIGTERM)
    assert first.finish() == 0

    began = time.monotonic()
    second = start_and_wait(small_up)

    assert time.monotonic() - began < 5
    with connect(second) as connection:
        assert connection.execute("SELECT number FROM kept").fetchone() == (42,)
    assert redis.Redis.from_url(str(second.servers()["redis_url"])).get("kept") == b"42"


def test_a_second_up_says_what_runs_and_ends_with_0(small_up: Start) -> None:
    first = start_and_wait(small_up)

    second = small_up()

    assert second.finish() == 0
    assert str(first.servers()["public_base_url"]) in second.text()
    assert f"web {first.pids()['web']}" in second.text()
    assert first.process.poll() is None


def test_a_killed_child_comes_back_with_growing_pauses(small_up: Start) -> None:
    run = start_and_wait(small_up)
    first = run.pids()["worker"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: run.pids()["worker"] != first)
    second = run.pids()["worker"]
    os.kill(second, signal.SIGKILL)
    wait_until(lambda: run.pids()["worker"] != second)

    assert f"worker (process {first}) was ended by SIGKILL" in run.text()
    assert "it starts again in 0.5 s" in run.text()
    assert "it starts again in 1 s" in run.text()


def test_a_killed_postgres_comes_back_on_the_same_address(small_up: Start) -> None:
    run = start_and_wait(small_up)
    killed = run.pids()["postgres"]
    os.kill(killed, signal.SIGKILL)

    def answers() -> bool:
        try:
            with connect(run) as connection:
                return connection.execute("SELECT 1").fetchone() == (1,)
        except psycopg.OperationalError:
            return False

    wait_until(lambda: run.pids()["postgres"] != killed)
    wait_until(answers)


def test_ctrl_c_stops_everything_in_order(small_up: Start) -> None:
    run = start_and_wait(small_up)
    everybody = run.everybody()
    wait_until(lambda: len(run.story()) == 5)
    os.killpg(run.process.pid, signal.SIGINT)  # as a terminal does it: to the foreground group

    assert run.finish() == 0
    assert run.story()[5:] == ["stop scheduler", "stop worker"]
    assert run.text().rstrip().endswith("Stopped.")
    assert not [pid for pid in everybody if is_alive(pid)]
    assert not (run.data_dir / "servers.json").exists()
    assert "database system is shut down" in (run.data_dir / "postgres.log").read_text()


def test_kill_9_of_the_supervisor_leaves_no_process_and_the_next_start_works(
    small_up: Start,
) -> None:
    run = start_and_wait(small_up)
    connection = connect(run)  # a backend with a transaction open
    connection.execute("SELECT 1")
    everybody = run.everybody()
    assert len(everybody) >= 11  # six of ours, the web worker, PostgreSQL's own processes

    run.process.kill()

    wait_until(lambda: not [pid for pid in everybody if is_alive(pid)], 5)
    connection.close()

    again = start_and_wait(small_up)
    with connect(again) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_start_right_after_kill_9_waits_for_the_earlier_processes(small_up: Start) -> None:
    run = start_and_wait(small_up)
    run.process.kill()
    again = start_and_wait(small_up)

    assert again.process.poll() is None
    assert again.pids()["postgres"] != run.process.pid


def test_a_failing_migration_stops_everything_and_ends_with_1(small_up: Start) -> None:
    run = small_up("0", "bad-migration")

    assert run.finish() == 1
    assert "migrate ended with exit code 3" in run.text()
    assert run.story() == ["ran migrate"]


def test_a_taken_web_port_is_named_with_what_to_do(small_up: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        run = small_up(str(port))
        assert run.finish() == 1

    assert f"Port {port} is taken" in run.text()
    assert "--port 0" in run.text()


def test_given_servers_are_used_instead_of_embedded_ones(small_up: Start, servers: Servers) -> None:
    run = start_and_wait(
        small_up,
        DATABASE_URL=servers.database_url,
        REDIS_URL=servers.redis_url,
    )

    assert set(run.pids()) == {"supervisor", "web", "worker", "scheduler"}
    assert "database_url" not in run.servers()


def test_ctrl_c_while_it_starts_stops_what_runs_by_then(small_up: Start) -> None:
    run = small_up()
    run.wait_for("Starting Valkey")
    everybody = run.everybody()
    run.process.send_signal(signal.SIGINT)

    assert run.finish() == 0
    assert not [pid for pid in everybody if is_alive(pid)]


def test_the_data_directory_is_made_passable_whatever_the_umask(open_folder: Path) -> None:
    environment = {"PYTHONPATH": str(Path.cwd())}
    before = os.umask(0o077)
    try:
        run = Run(open_folder / "var", "0", "bad-migration", environment=environment)
    finally:
        os.umask(before)

    assert run.finish() == 1
    assert (open_folder / "var").stat().st_mode & 0o777 == 0o755
    assert (open_folder / "var" / "postgres" / "data" / "PG_VERSION").exists()


def test_sigint_stops_it_in_the_background_too_and_nohup_survives_a_closed_terminal(
    small_up: Start,
) -> None:
    ignored = (signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ignored}
    try:
        run = small_up()  # inherits what is ignored, as after "nohup … &"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    run.wait_for("Press Ctrl-C")
    run.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert run.process.poll() is None

    run.process.send_signal(signal.SIGINT)

    assert run.finish() == 0
