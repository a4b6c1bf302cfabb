"""The sending loop on a real database, with real providers that need no network."""

import uuid

from flask import Flask
from sqlalchemy import select
from sqlalchemy.orm import Session, scoped_session

from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.states import State
from dashboard.settings import Settings
from jobs.sender import Sender
from tests.factories import make_dispatch


def null_sender(settings: Settings) -> Sender:
    return Sender(
        settings.model_copy(update={"email_provider": "null", "sms_provider": "null"}), "w-1"
    )


def test_a_queued_dispatch_is_sent_once(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    row = make_dispatch(session)
    session.commit()
    sender = null_sender(settings)
    sender.work([row.id], "default")
    sender.work([row.id], "default")
    sender.close()
    session.expire_all()
    sent = session.get(Dispatch, row.id)
    assert sent.state is State.SENT
    attempts = session.scalars(select(Attempt)).all()
    assert [(a.number, a.evidence) for a in attempts] == [(1, Evidence.ACCEPTED)]
    assert attempts[0].handed_over_at is not None
    lines = session.scalars(select(Transition).order_by(Transition.id)).all()
    assert [(t.state_from, t.state_to) for t in lines] == [
        ("", "queued"),
        ("queued", "sending"),
        ("sending", "sent"),
    ]


def test_siblings_come_along(
    app: Flask, session: scoped_session[Session], settings: Settings
) -> None:
    rows = [make_dispatch(session, recipient=f"p{n}@example.com") for n in range(60)]
    session.commit()
    sender = null_sender(settings)
    sender.work([rows[0].id], "default")
    sender.close()
    session.expire_all()
    assert {row.state for row in session.scalars(select(Dispatch))} == {State.SENT}


def test_a_job_without_a_row_ends_quietly(app: Flask, settings: Settings) -> None:
    sender = null_sender(settings)
    sender.work([uuid.uuid4()], "default")
    sender.close()
