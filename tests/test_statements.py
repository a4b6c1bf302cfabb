"""How many SQL statements sending costs, counted as the worker runs it.

Accepting is counted in `dispatch/test_intake.py`, reports in `dispatch/test_reports.py`, and pages
beside each page.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session, scoped_session

from dashboard.database import db
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import State
from dashboard.settings import Settings
from jobs.sender import Sender
from tests.factories import make_dispatch

SINGLE = 9
WITHIN_A_BATCH = 1


@contextmanager
def counted() -> Iterator[list[str]]:
    """Yield the list that every statement of the application is added to."""
    seen: list[str] = []

    def note(_connection, _cursor, statement, _parameters, _context, _many) -> None:
        seen.append(statement)

    event.listen(db.engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(db.engine, "before_cursor_execute", note)


def sender(settings: Settings) -> Sender:
    return Sender(
        settings.model_copy(update={"email_provider": "null", "sms_provider": "null"}), "w-1"
    )


def sent(session: scoped_session[Session]) -> int:
    return session.scalar(select(func.count()).where(Dispatch.state == State.SENT))


def test_sending_one_takes_few_statements(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    row = make_dispatch(session)
    session.commit()
    worker = sender(settings)
    with counted() as statements:
        worker.work([row.id], "default")
    worker.close()
    assert sent(session) == 1
    assert len(statements) <= SINGLE, statements


def test_sending_within_a_batch_takes_one_statement_each_at_most(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    rows = [make_dispatch(session, recipient=f"p{number}@example.com") for number in range(100)]
    session.commit()
    worker = sender(settings)
    with counted() as statements:
        worker.work([row.id for row in rows], "default")
    worker.close()
    assert sent(session) == 100
    assert len(statements) <= 100 * WITHIN_A_BATCH, len(statements)
