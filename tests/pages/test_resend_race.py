"""Two people press Resend at the same moment: one new dispatch, and the other reads who won."""

import re
import threading
from collections import Counter

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import select
from sqlalchemy.orm import Session, scoped_session

from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Failure, State
from tests.factories import make_dispatch
from tests.pages.desk import sign_in, words

ROUNDS = 20
PEOPLE = ("ada@example.com", "bo@example.com")


def press_at_once(
    clients: dict[str, FlaskClient], address: str, fields: dict[str, dict[str, str]]
) -> dict[str, tuple[int, str]]:
    """Let everybody press at the same moment; return status and words of the answer by person."""
    answers: dict[str, tuple[int, str]] = {}
    barrier = threading.Barrier(len(clients))

    def press(person: str) -> None:
        barrier.wait(10)
        headers = {"HX-Request": "true"}
        answer = clients[person].post(address, data=fields[person], headers=headers)
        answers[person] = (answer.status_code, words(answer.text))

    threads = [threading.Thread(target=press, args=(person,)) for person in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return answers


def test_two_presses_at_the_same_moment_make_one_and_the_loser_reads_who_won(
    app: Flask, session: scoped_session[Session]
) -> None:
    desks = {person: sign_in(app, session, email=person) for person in PEOPLE}
    clients = {person: desk.client for person, desk in desks.items()}
    rows = [
        make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED)
        for _ in range(ROUNDS)
    ]
    session.commit()
    for row in rows:
        page = f"/dispatches/{row.id}"
        fields = {p: desk.fields(page, f"{page}/resend") for p, desk in desks.items()}
        answers = press_at_once(clients, f"{page}/resend", fields)
        assert Counter(status for status, _ in answers.values()) == {200: 1, 409: 1}, answers
        winner = next(person for person, (status, _) in answers.items() if status == 200)
        loser = next(person for person in PEOPLE if person != winner)
        told = rf"Already resent by {re.escape(winner)} at \d\d:\d\d UTC\."
        assert re.search(told, answers[loser][1]), answers
        session.rollback()
        assert (
            len(session.scalars(select(Dispatch).where(Dispatch.replaces_id == row.id)).all()) == 1
        )
