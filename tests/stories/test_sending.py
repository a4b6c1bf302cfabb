"""Sending under ordinary trouble: an emptied Redis, many at once, a stop, a server that refuses."""

from concurrent.futures import ThreadPoolExecutor

from sqlalchemy.orm import Session

from dashboard.dispatch.intake import add_email
from dashboard.dispatch.models import Attempt, RoutePause
from dashboard.dispatch.states import Hold
from dashboard.providers.base import OutcomeKind
from dashboard.queueing.connection import redis_connection
from tests.pages.api_client import EMAIL, ApiClient


def test_an_emptied_redis_loses_none_of_a_hundred(here):
    ids = here.send(100)
    redis_connection(here.settings).flushall()
    here.processes.keepers()
    here.processes.worker()
    here.wait_for_states(sent=100)
    assert here.sink.counts() == {str(one): 1 for one in ids}


def test_five_hundred_posts_at_twenty_parallel_arrive_once_each(here, app, session):
    api = ApiClient(app.test_client(), session)
    workers = [here.processes.worker().ready() for _ in range(2)]

    def post(number: int) -> str:
        body = {**EMAIL, "to": f"p{number}@example.com"}
        headers = api.headers({"Idempotency-Key": f"invitation-{number}"})
        answer = app.test_client().post("/api/v1/dispatches", json=body, headers=headers)
        assert answer.status_code == 202, answer.text
        return answer.json["id"]

    with ThreadPoolExecutor(20) as posters:
        posted = list(posters.map(post, range(500)))
    here.wait_for_states(sent=500, seconds=40)
    assert here.sink.counts() == dict.fromkeys(posted, 1)
    assert [worker.stop() for worker in workers] == [0, 0]
    assert "unknown to the database" not in here.processes.logs()
    assert "Traceback" not in here.processes.logs()


def test_a_transaction_that_is_rolled_back_sends_nothing(here):
    here.queue(0)  # the source
    here.processes.worker().ready()
    wanted = {"source": "programme-site", "subject": "Your talk", "text": "Hello"}
    with Session(here.engine) as host:
        add_email(session=host, to="gone@example.com", **wanted)
        host.rollback()
        kept = add_email(session=host, to="kept@example.com", **wanted).id
        host.commit()
    here.wait_for_states(sent=1)
    assert here.sink.counts() == {str(kept): 1}
    assert "unknown to the database" not in here.processes.logs()


def test_sigterm_ends_running_calls_and_leaves_the_rest_to_the_next_worker(here):
    here.sink.pause_seconds = 0.4
    first = here.processes.worker(WIREROOM_SEND_CONCURRENCY="4", WIREROOM_SEND_BATCH="4").ready()
    ids = here.send(30)
    here.wait(lambda: len(here.sink.accepted) >= 6)
    first.terminate()
    first.wait_for("worker stopping")
    first.terminate()
    assert first.finish() == 0
    sent = len(here.sink.accepted)
    assert here.states() == {"sent": sent, "queued": 30 - sent}
    here.sink.pause_seconds = 0
    here.processes.worker()
    here.wait_for_states(sent=30)
    assert here.sink.counts() == {str(one): 1 for one in ids}


def test_a_refused_sign_in_pauses_the_route_until_the_server_lets_us_in(here):
    here.sink.sign_in = "535 5.7.8 wrong password"
    here.processes.environment["SMTP_URL"] = here.sink.url("us:secret@")
    here.processes.keepers()
    here.processes.worker()
    ids = here.queue(20)
    here.publish(ids[:1])
    here.wait(lambda: here.holds() == {Hold.ROUTE: 20})
    here.publish(ids[1:])
    assert here.row(ids[0]).tries == 0
    assert here.sink.accepted == []
    here.sink.sign_in = "235 2.7.0 welcome"
    here.sink.pause_seconds = 0.3
    here.wait_for_states(sent=20)
    assert here.sink.counts() == {str(one): 1 for one in ids}
    assert here.all(RoutePause) == []
    trial, *others = sorted(
        (one for one in here.all(Attempt) if one.outcome is OutcomeKind.ACCEPTED),
        key=lambda one: one.claimed_at,
    )
    assert all(one.claimed_at >= trial.finished_at for one in others), "one first, then all"
