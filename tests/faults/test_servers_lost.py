"""PostgreSQL and Valkey that go away and come back: nothing is lost, nothing goes out twice."""

import json

import pytest

pytestmark = pytest.mark.faults

COUNT = 120
CONCURRENCY = 16


def test_postgres_restarted_at_once_while_sending_keeps_every_outcome(apart, own_servers):
    apart.sink.hold_answers()
    workers = [apart.processes.worker().ready() for _ in range(2)]
    apart.processes.keepers()
    ids = apart.queue(COUNT)
    apart.publish(ids, one_by_one=True)
    apart.wait(lambda: len(apart.sink.accepted) == 2 * CONCURRENCY)
    own_servers.kill_postgres()
    apart.sink.answer()
    for worker in workers:
        worker.wait_for("database did not answer")
    own_servers.start_postgres()
    apart.wait_for_states(sent=COUNT, seconds=60)
    assert apart.sink.counts() == {str(one): 1 for one in ids}
    assert all(worker.exit_code is None for worker in workers), "no worker needed a new start"


def test_outcomes_are_spooled_when_a_worker_stops_without_its_database(apart, own_servers):
    apart.sink.hold_answers()
    worker = apart.processes.worker().ready()
    ids = apart.send(10)
    apart.wait(lambda: len(apart.sink.accepted) == 10)
    own_servers.kill_postgres()
    worker.terminate()
    worker.wait_for("worker stopping")
    apart.sink.answer()
    assert worker.finish(60) == 0
    (spooled,) = (apart.settings.data_dir / "spool").glob("*.json")
    assert len(json.loads(spooled.read_text())) == 10
    own_servers.start_postgres()
    apart.processes.worker().ready()
    apart.wait_for_states(sent=10)
    assert not spooled.exists()
    apart.processes.keepers()
    assert apart.sink.counts() == {str(one): 1 for one in ids}


@pytest.mark.parametrize("with_its_data", [False, True])
def test_valkey_killed_while_sending_and_started_again(apart, own_servers, with_its_data):
    apart.sink.hold_answers()
    apart.processes.keepers()
    apart.processes.worker(WIREROOM_SEND_BATCH="20").ready()
    ids = apart.queue(COUNT)
    apart.publish(ids, one_by_one=True)
    apart.wait(lambda: len(apart.sink.accepted) == CONCURRENCY)
    own_servers.kill_valkey(with_its_data=with_its_data)
    apart.sink.answer()
    apart.wait(lambda: apart.states().get("sent", 0) >= CONCURRENCY)
    own_servers.start_valkey()
    apart.wait(lambda: apart.processes.revive() and apart.states() == {"sent": COUNT}, 60)
    assert apart.sink.counts() == {str(one): 1 for one in ids}


def test_a_worker_whose_redis_is_away_when_its_job_ends_waits_and_works_on(apart, own_servers):
    apart.sink.hold_answers()
    worker = apart.processes.worker().ready()
    apart.processes.keepers()
    apart.send(10)
    apart.wait(lambda: len(apart.sink.accepted) == 10)
    own_servers.kill_valkey()
    apart.sink.answer()
    worker.wait_for("redis did not answer")
    own_servers.start_valkey()
    ids = apart.send(5)
    apart.wait_for_states(sent=15, seconds=60)
    assert worker.exit_code is None, "it needed no new start"
    assert [apart.sink.counts()[str(one)] for one in ids] == [1] * 5


def test_a_worker_told_to_stop_while_redis_is_away_writes_its_outcomes(apart, own_servers):
    apart.sink.hold_answers()
    worker = apart.processes.worker().ready()
    apart.send(10)
    apart.wait(lambda: len(apart.sink.accepted) == 10)
    own_servers.kill_valkey()
    worker.terminate()
    worker.wait_for("worker stopping")
    apart.sink.answer()
    worker.finish(30)
    assert apart.states() == {"sent": 10}
    own_servers.start_valkey()
