"""Who is suppressed by what, and that nothing is handed over to them."""

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, scoped_session

from dashboard.dispatch import claims, outcomes
from dashboard.dispatch.claims import Claim, Taker
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Suppression
from dashboard.dispatch.outcomes import Judge, Result
from dashboard.dispatch.reports.applying import receive
from dashboard.dispatch.states import Channel, Failure, State
from dashboard.dispatch.suppressions import suppress
from dashboard.providers.base import Capabilities, Event, Outcome, OutcomeKind, Report
from dashboard.settings import Settings
from jobs.sender import Sender
from tests.factories import make_attempt, make_dispatch, make_source
from tests.pages.desk import counted

Db = scoped_session[Session]
GONE = Outcome(OutcomeKind.PERMANENT, "550 5.1.1 no such user", suppress=True)


def work(settings: Settings, *rows: Dispatch) -> None:
    """Let a worker send rows by a route that takes everything."""
    null = {"email_provider": "null", "sms_provider": "null"}
    sender = Sender(settings.model_copy(update=null), "w-1")
    sender.work([row.id for row in rows], "default")
    sender.close()


def fresh(session: Db, row: Dispatch) -> Dispatch:
    session.expire_all()
    return session.get_one(Dispatch, row.id)


def claimed(session: Db, row: Dispatch, route: str) -> Claim:
    session.commit()
    taker = Taker("w-1", "default", {row.channel: route}, own=[row.id], siblings=False)
    [claim] = claims.claim(session, taker, 1)
    session.commit()
    return claim


def answered(
    session: Db, settings: Settings, row: Dispatch, outcome: Outcome, route: str = "smtp"
) -> None:
    """Record what a route answered to a dispatch."""
    claim = claimed(session, row, route)
    result = Result(row.id, claim.attempt_id, claim.number, route, outcome, channel=row.channel)
    outcomes.record(session, [result], Judge(settings, "worker:w-1", Capabilities()))
    session.commit()


def suppressed(session: Db) -> list[tuple[Channel, str]]:
    query = select(Suppression.channel, Suppression.recipient_normalised)
    return [
        (row[0], row[1]) for row in session.execute(query.where(Suppression.lifted_at.is_(None)))
    ]


def test_nothing_is_handed_over_to_a_suppressed_recipient(
    app: Flask, session: Db, settings: Settings
) -> None:
    gone = make_dispatch(session, recipient="Gone@example.com")
    other = make_dispatch(session, recipient="here@example.com")
    session.execute(suppress(gone, "550 5.1.1"))
    session.commit()
    work(settings, gone, other)
    gone, other = fresh(session, gone), fresh(session, other)
    assert (gone.state, gone.failure, gone.permanent) == (State.ERRORED, Failure.SUPPRESSED, False)
    assert gone.maybe_sent is False
    assert other.state is State.SENT
    attempt = session.scalars(select(Attempt).where(Attempt.dispatch_id == gone.id)).one()
    assert attempt.handed_over_at is None
    assert attempt.evidence == Evidence.ABSENT


@pytest.mark.parametrize("everywhere", [True, False])
def test_a_suppression_of_another_source_channel_or_past_holds_nothing_back(
    app: Flask, session: Db, settings: Settings, everywhere: bool
) -> None:
    elsewhere = make_dispatch(session, source=make_source(session, "ticket-shop"))
    row = make_dispatch(session)
    session.execute(suppress(elsewhere, "gone"))
    session.execute(
        Suppression.__table__.insert().values(  # type: ignore[attr-defined]  # it is a Table
            channel=Channel.SMS,
            recipient_normalised=row.recipient_normalised,
            reason="",
            source_id=row.source_id,
            lifted_by="",
        )
    )
    if everywhere:
        session.execute(update(Suppression).values(source_id=None, channel=Channel.EMAIL))
    session.commit()
    work(settings, row)
    assert fresh(session, row).state is (State.ERRORED if everywhere else State.SENT)


def test_try_again_sends_after_the_suppression_was_lifted(
    app: Flask, session: Db, settings: Settings
) -> None:
    row = make_dispatch(session)
    session.execute(suppress(row, "gone"))
    session.execute(update(Suppression).values(lifted_at=func.now(), lifted_by="user:a@b.example"))
    session.commit()
    work(settings, row)
    assert fresh(session, row).state is State.SENT


def test_the_look_costs_no_statement(app: Flask, session: Db, settings: Settings) -> None:
    rows = [make_dispatch(session, recipient=f"p{number}@example.com") for number in range(16)]
    for row in rows[:8]:
        session.execute(suppress(row, "gone"))
    session.commit()
    with counted() as statements:
        work(settings, *rows)
    assert sum("FROM suppression" in one for one in statements) == sum(
        "FOR UPDATE OF dispatch SKIP LOCKED" in one for one in statements
    )
    assert len(statements) <= len(rows)


def test_an_address_that_is_gone_is_suppressed_once_and_again_after_a_lift(
    app: Flask, session: Db, settings: Settings
) -> None:
    for _ in range(2):
        row = make_dispatch(session)
        # The second one was claimed before anybody knew.
        session.execute(update(Suppression).values(lifted_at=func.now(), lifted_by="user:x"))
        answered(session, settings, row, GONE)
        assert suppressed(session) == [(Channel.EMAIL, "ada@example.com")]
    found = session.scalars(select(Suppression).execution_options(populate_existing=True)).one()
    assert (found.reason, found.dispatch_id, found.lifted_by) == (GONE.detail, row.id, "")


@pytest.mark.parametrize(
    ("outcome", "route"),
    [
        (Outcome(OutcomeKind.PERMANENT, "552 too big"), "smtp"),
        (Outcome(OutcomeKind.TRANSIENT, "450 busy", suppress=True), "smtp"),
        (GONE, "sandbox"),
    ],
)
def test_other_refusals_suppress_nobody(
    app: Flask, session: Db, settings: Settings, outcome: Outcome, route: str
) -> None:
    answered(session, settings, make_dispatch(session), outcome, route)
    assert suppressed(session) == []


@pytest.mark.parametrize(
    ("channel", "code", "permanent", "expected"),
    [
        (Channel.SMS, "21610", True, True),
        (Channel.SMS, "30006", True, True),
        (Channel.SMS, "30003", True, False),
        (Channel.SMS, "550 5.1.1", True, False),
        (Channel.EMAIL, "5.1.1", True, True),
        (Channel.EMAIL, "550 5.1.1", True, True),
        (Channel.EMAIL, "5.1.1", False, False),
        (Channel.EMAIL, "5.7.1", True, False),
        (Channel.EMAIL, "5.1.11", True, False),
        (Channel.EMAIL, "21610", True, False),
    ],
)
def test_a_report_suppresses_who_is_gone_or_wants_no_more(
    app: Flask, session: Db, channel: Channel, code: str, permanent: bool, expected: bool
) -> None:
    row = make_dispatch(session, channel=channel, state=State.AWAITING)
    make_attempt(
        session,
        row,
        route="provider",
        provider_message_id="m-1",
        evidence=int(Evidence.ACCEPTED),
        outcome=OutcomeKind.ACCEPTED,
    )
    session.commit()
    report = Report("provider", Event.FAILED, "m-1", code=code, permanent=permanent, reason="why")
    with counted() as statements:
        receive(session, [report])
    assert len(statements) <= 6
    assert fresh(session, row).state is State.ERRORED
    assert bool(suppressed(session)) is expected
    receive(session, [Report("provider", Event.FAILED, "m-1", code=code, permanent=permanent)])
    assert len(suppressed(session)) == expected
