"""Claims and hand-over marks on the real database, and that SQL and rules say the same."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import product

import pytest
from sqlalchemy import Engine, func, insert, select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, scoped_session

from dashboard.database import new_id
from dashboard.dispatch import claims, routes
from dashboard.dispatch.claims import Claim, Taker, claimable
from dashboard.dispatch.decisions import is_claimable, may_hand_over
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.states import Channel, Hold, NextStep, State, Trigger
from dashboard.dispatch.transitions import Change, Locked, attempts_of, facts_of
from tests.factories import make_attempt, make_dispatch, make_source

Rows = scoped_session[Session]
HOUR = timedelta(hours=1)
ROUTES = {Channel.EMAIL: "smtp", Channel.SMS: "null"}


@pytest.fixture
def second(database: Engine) -> Iterator[Session]:
    with Session(database) as session:
        yield session


def taker(*own: object, worker: str = "w-1", siblings: bool = True) -> Taker:
    return Taker(worker, "default", ROUTES, tuple(own), siblings=siblings)


def take(session: Session | Rows, *own: object, limit: int = 16, **values: object) -> list[Claim]:
    claimed = claims.claim(session, taker(*own, **values), limit)
    session.commit()
    return claimed


def columns(source_id: object, **values: object) -> dict[str, object]:
    return {
        "id": new_id(),
        "source_id": source_id,
        "channel": Channel.EMAIL,
        "recipient": "ada@example.com",
        "recipient_normalised": "ada@example.com",
        **values,
    }


# The same said twice


def test_the_condition_of_claims_says_what_the_rule_says(session: Rows) -> None:
    source, now = make_source(session), session.scalar(select(func.now()))
    combinations = product(
        State,
        Hold,
        (now - HOUR, now + HOUR),
        (None, now - HOUR, now + HOUR),
        NextStep,
        (None, new_id()),
    )
    rows = [
        columns(
            source.id,
            state=state,
            hold=hold,
            due_at=due_at,
            expires_at=expires_at,
            next_step=next_step,
            replaced_by_id=replaced_by,
        )
        for state, hold, due_at, expires_at, next_step, replaced_by in combinations
    ]
    session.execute(insert(Dispatch), rows)
    by_sql = set(session.scalars(select(Dispatch.id).where(claimable(func.statement_timestamp()))))
    by_rule = {
        row.id
        for row in session.scalars(select(Dispatch))
        if is_claimable(row.state, facts_of(Locked(row, [], now), Change(Trigger.CLAIM, "test")))
    }
    assert by_sql == by_rule
    assert len(by_rule) == 6, "three states, without an end or before it"


def histories() -> list[list[tuple[Evidence, bool]]]:
    """Return the evidence, and whether it is closed, of the attempts of one dispatch."""
    one = list(product(Evidence, (False, True)))
    return [[only] for only in one] + [
        [(first, True), latest] for first, latest in product(Evidence, one)
    ]


def test_the_fence_of_the_mark_says_what_the_rule_says(session: Rows) -> None:
    source, now = make_source(session), session.scalar(select(func.now()))
    dispatches, attempts = [], []
    for state, noted, history in product(State, ("", "user:operator"), histories()):
        known = [evidence for evidence, _ in history]
        proven = any(one.is_accepted or one is Evidence.DELIVERED for one in known)
        row = columns(
            source.id, state=state, cancel_noted_by=noted, proven=proven, attempts=len(history)
        )
        dispatches.append(row)
        attempts += [
            attempt_columns(row["id"], number, evidence, now if closed else None, now)
            for number, (evidence, closed) in enumerate(history, 1)
        ]
    session.execute(insert(Dispatch), dispatches)
    session.execute(insert(Attempt), attempts)
    rows = {row.id: row for row in session.scalars(select(Dispatch))}
    grouped = attempts_of(session, list(rows))
    allowed = {
        attempt.id
        for row in rows.values()
        for attempt in grouped[row.id]
        if may_hand_over(
            row.state,
            attempt.number,
            facts_of(Locked(row, grouped[row.id], now), Change(Trigger.CLAIM, "test")),
        )
    }
    wanted = [
        Claim(rows[one.dispatch_id], one.id, one.number, "smtp", "")
        for some in grouped.values()
        for one in some
    ]
    assert claims.mark(session, wanted) == allowed
    assert 0 < len(allowed) < len(wanted)


def attempt_columns(
    dispatch_id: object,
    number: int,
    evidence: Evidence,
    finished_at: datetime | None,
    now: datetime,
) -> dict[str, object]:
    return {
        "id": new_id(),
        "dispatch_id": dispatch_id,
        "number": number,
        "worker": "w-1",
        "claimed_at": now,
        "finished_at": finished_at,
        "evidence": int(evidence),
    }


# Claims


def test_a_claim_is_a_move_with_an_attempt_and_a_line_of_history(session: Rows) -> None:
    row = make_dispatch(session)
    published_at = row.published_at
    session.commit()
    [claim] = take(session, row.id)
    attempt = session.scalars(select(Attempt)).one()
    assert (claim.number, claim.route, claim.idempotency) == (1, "smtp", f"{row.id}.1")
    assert (attempt.id, attempt.worker, attempt.published_at) == (
        claim.attempt_id,
        "w-1",
        published_at,
    )
    session.refresh(row)
    assert (row.state, row.worker, row.attempts, row.published_at) == (
        State.SENDING,
        "w-1",
        1,
        None,
    )
    last = session.scalars(select(Transition).order_by(Transition.id.desc())).first()
    assert (last.state_from, last.state_to, last.attempt) == ("queued", "sending", 1)


def test_two_workers_never_claim_the_same_row(session: Rows, second: Session) -> None:
    row = make_dispatch(session)
    session.commit()
    claimed = claims.claim(session, taker(row.id), 16)
    assert claims.claim(second, taker(row.id, worker="w-2"), 16) == [], "it is locked"
    session.commit()
    assert claims.claim(second, taker(row.id, worker="w-2"), 16) == [], "it is taken"
    second.rollback()
    assert len(claimed) == 1


def test_the_own_ones_come_before_older_siblings(session: Rows) -> None:
    now = session.scalar(select(func.now()))
    older = [make_dispatch(session, due_at=now - HOUR) for _ in range(3)]
    own = make_dispatch(session)
    session.commit()
    assert [one.dispatch.id for one in take(session, own.id, limit=2)] == [own.id, older[0].id]
    assert [one.dispatch.id for one in take(session, older[1].id, siblings=False)] == [older[1].id]


def test_sources_take_turns_among_the_siblings(session: Rows) -> None:
    now = session.scalar(select(func.now()))
    flood = make_source(session, "flood")
    for minute in range(20):
        make_dispatch(session, source=flood, due_at=now - HOUR + timedelta(minutes=minute))
    patient = make_dispatch(session, source=make_source(session, "patient"))
    session.commit()
    assert patient.id in {one.dispatch.id for one in take(session, limit=2)}


def test_a_row_whose_worker_was_lost_is_claimed_alone(session: Rows) -> None:
    lost = make_dispatch(session, losses=1)
    other = make_dispatch(session)
    session.commit()
    assert [one.dispatch.id for one in take(session, other.id)] == [other.id]
    assert [one.dispatch.id for one in take(session, lost.id)] == [lost.id]


def test_a_paused_route_lets_only_its_trial_through(session: Rows) -> None:
    row, trial = make_dispatch(session), make_dispatch(session)
    routes.pause(session, "smtp", "535 wrong password")
    session.commit()
    assert take(session, row.id, trial.id) == []
    routes.resume(session, "smtp")
    session.get(routes.RoutePause, "smtp").trial_id = trial.id
    session.commit()
    assert [one.dispatch.id for one in take(session, row.id, trial.id)] == [trial.id]


def test_the_idempotency_key_stays_while_an_attempt_may_have_arrived(session: Rows) -> None:
    doubtful = make_dispatch(
        session, state=State.DELAYED, attempts=1, idempotency="the-key", maybe_sent=True
    )
    refused = make_dispatch(session, state=State.DELAYED, attempts=1, idempotency="the-key")
    session.commit()
    keys = {one.dispatch.id: one.idempotency for one in take(session, doubtful.id, refused.id)}
    assert keys == {doubtful.id: "the-key", refused.id: f"{refused.id}.2"}


# Marks


def test_a_mark_waits_for_whoever_holds_the_row_and_sees_what_they_did(
    session: Rows, database: Engine
) -> None:
    row = make_dispatch(session)
    session.commit()
    [claim] = take(session, row.id)
    with Session(database) as other:
        other.execute(select(Dispatch.id).where(Dispatch.id == row.id).with_for_update())
        with Session(database) as impatient:
            impatient.execute(select(func.set_config("lock_timeout", "100", True)))
            with pytest.raises(OperationalError, match="lock timeout"):
                claims.mark(impatient, [claim])
        other.rollback()
    assert claims.mark(session, [claim]) == {claim.attempt_id}


def test_a_mark_is_stamped_by_the_database_and_can_be_made_again(session: Rows) -> None:
    row = make_dispatch(session)
    session.commit()
    [claim] = take(session, row.id)
    claims.mark(session, [claim])
    session.commit()
    first = session.scalars(select(Attempt.handed_over_at)).one()
    claims.mark(session, [claim])
    session.commit()
    session.expire_all()
    attempt = session.scalars(select(Attempt)).one()
    assert attempt.handed_over_at > first
    assert Evidence(attempt.evidence) is Evidence.HANDED_OVER


def test_a_newer_attempt_takes_the_mark_away_from_the_older_one(session: Rows) -> None:
    row = make_dispatch(session, state=State.SENDING)
    old, new = make_attempt(session, row), make_attempt(session, row)
    session.commit()
    wanted = [Claim(row, one.id, one.number, "smtp", "") for one in (old, new)]
    assert claims.mark(session, wanted) == {new.id}
