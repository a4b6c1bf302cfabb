"""Claims: a worker takes dispatches, and marks the hand-over right before the provider is called.

Both are one short transaction for many rows. Nothing here commits or calls a provider.
"""

import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    Subquery,
    Uuid,
    and_,
    any_,
    bindparam,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    union_all,
    update,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import aliased, contains_eager

from dashboard.database import AnySession, is_one_of, new_id
from dashboard.dispatch.decisions import decide
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, EmailContent, RoutePause, SmsContent
from dashboard.dispatch.states import WAITING, Channel, Hold, NextStep, State, Trigger
from dashboard.dispatch.suppressions import is_suppressed
from dashboard.dispatch.transitions import Change, Locked, facts_of, write

CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class Claim:
    """One claimed dispatch, as its worker carries it: detached, with its content."""

    dispatch: Dispatch
    attempt_id: uuid.UUID
    number: int
    route: str
    idempotency: str
    suppressed: bool = False


@dataclass(frozen=True, slots=True)
class Taker:
    """Who claims, from which queue, and by which route each channel goes out.

    Attributes:
        own: the dispatches that the job at hand names.
        siblings: whether others of the queue may come along into free slots.
    """

    worker: str
    queue: str
    routes: Mapping[Channel, str]
    own: Collection[uuid.UUID] = field(default_factory=tuple)
    siblings: bool = True


def claimable(now: ColumnElement[datetime]) -> ColumnElement[bool]:
    """Return the condition under which a row may be claimed; `is_claimable` says the same."""
    return and_(
        Dispatch.state.in_(sorted(WAITING)),
        Dispatch.due_at <= now,
        or_(Dispatch.expires_at.is_(None), Dispatch.expires_at > now),
        Dispatch.next_step == NextStep.SEND,
        Dispatch.hold == Hold.NONE,
        Dispatch.replaced_by_id.is_(None),
    )


def route_is_open(route: str) -> ColumnElement[bool]:
    """Return the condition that a route takes this row: it is not paused, or this is its trial."""
    return ~(
        select(RoutePause.route)
        .where(
            RoutePause.route == route,
            or_(
                RoutePause.resumed_at.is_(None),
                RoutePause.trial_id.is_distinct_from(Dispatch.id),
            ),
        )
        .exists()
    )


def claim(session: AnySession, taker: Taker, limit: int) -> list[Claim]:
    """Take up to `limit` dispatches: the taker's own first, then siblings of its queue.

    What others hold is skipped. Siblings share fairly between sources; a row whose worker was lost
    is only taken as the taker's own. Four statements, whatever the number; does not commit.
    """
    routes = tuple(sorted(taker.routes.items()))
    statement = _candidates(taker.queue, routes, taker.siblings, limit)
    found = session.execute(statement, {"own": list(taker.own)})
    taken = [_take(one, taker) for one in found]
    if taken:
        session.flush()
        session.execute(OPEN_ATTEMPTS, {"attempts": json.dumps([line for _, line in taken])})
    return [one for one, _ in taken]


# Attempts and their lines of history in one statement of constant text: a VALUES list would be
# compiled anew for each number of rows.
OPEN_ATTEMPTS = text("""
    WITH taken AS (
        SELECT * FROM jsonb_to_recordset(CAST(:attempts AS jsonb)) AS taken (
            id uuid, history_id uuid, dispatch_id uuid, number int, worker text, queue text,
            claimed_at timestamptz, published_at timestamptz, route text, idempotency text,
            state_from text, actor text
        )
    ), opened AS (
        INSERT INTO attempt (
            id, dispatch_id, number, worker, queue, claimed_at, published_at, route, idempotency,
            evidence, provider_message_id, code, detail, look_ups, lost, no_report
        )
        SELECT id, dispatch_id, number, worker, queue, claimed_at, published_at, route, idempotency,
            0, '', '', '', 0, false, false
        FROM taken
    )
    INSERT INTO transition (
        id, dispatch_id, state_from, state_to, trigger, at, actor, attempt, note, repeats
    )
    SELECT history_id, dispatch_id, state_from, 'sending', 'claim', claimed_at, actor, number, '', 0
    FROM taken
""")


_OWN = bindparam("own", type_=ARRAY(Uuid()))


@lru_cache(maxsize=256)
def _candidates(
    queue: str,
    routes: tuple[tuple[Channel, str], ...],
    siblings: bool,  # noqa: FBT001  a cache knows arguments by their place
    limit: int,
) -> Select[Dispatch, datetime, bool]:
    """Return the statement that selects and locks; built once, since building it costs much."""
    now = func.statement_timestamp()
    wanted = _wanted(queue, limit) if siblings else _own().subquery()
    return (
        # The time of the statement, so that the rules see the very moment the condition saw.
        select(Dispatch, now, is_suppressed())
        .join(wanted, wanted.c.id == Dispatch.id)
        .outerjoin(EmailContent, EmailContent.dispatch_id == Dispatch.id)
        .outerjoin(SmsContent, SmsContent.dispatch_id == Dispatch.id)
        .options(contains_eager(Dispatch.email), contains_eager(Dispatch.sms))
        .where(
            claimable(now),
            or_(
                *(
                    and_(Dispatch.channel == channel, route_is_open(route))
                    for channel, route in routes
                )
            ),
        )
        .order_by(wanted.c.turn, Dispatch.due_at, Dispatch.id)
        .limit(limit)
        .with_for_update(of=Dispatch, skip_locked=True)
        .execution_options(populate_existing=True)
    )


def _own() -> Select[uuid.UUID, int]:
    return select(Dispatch.id, literal(0).label("turn")).where(Dispatch.id == any_(_OWN))


def _wanted(queue: str, limit: int) -> Subquery:
    """Return the ids that a taker would have and their turn: its own first, sources in turns.

    None come along with a row whose worker was lost: it may be what kills the next one as well.
    """
    sibling = aliased(Dispatch)
    suspect = aliased(Dispatch)
    own_is_suspect = exists().where(suspect.id == any_(_OWN), suspect.losses > 0)
    oldest = (
        select(sibling.id, sibling.source_id, sibling.due_at)
        .where(
            sibling.queue == queue,
            sibling.state.in_(sorted(WAITING)),
            sibling.due_at <= func.statement_timestamp(),
            sibling.next_step == NextStep.SEND,
            sibling.hold == Hold.NONE,
            sibling.losses == 0,
            ~(sibling.id == any_(_OWN)),
            ~own_is_suspect,
        )
        .order_by(sibling.due_at)
        .limit(limit * CANDIDATES * 4)
        .subquery()
    )
    turn = (
        func.row_number()
        .over(partition_by=oldest.c.source_id, order_by=(oldest.c.due_at, oldest.c.id))
        .label("turn")
    )
    turns = select(oldest.c.id, oldest.c.due_at, turn).subquery()
    siblings = (
        select(turns.c.id, turns.c.turn)
        .order_by(turns.c.turn, turns.c.due_at)
        .limit(limit * CANDIDATES)
        .subquery()
    )
    return union_all(_own(), select(siblings)).subquery()


def _take(found: Row[Dispatch, datetime, bool], taker: Taker) -> tuple[Claim, dict[str, object]]:
    """Move one locked row to `sending`; return the claim and its line for OPEN_ATTEMPTS."""
    row, now, suppressed = found
    number = row.attempts + 1
    route = taker.routes[row.channel]
    key = row.idempotency if row.maybe_sent and row.idempotency else f"{row.id}.{number}"
    published_at = row.published_at if row.id in taker.own else None
    change = Change(
        Trigger.CLAIM,
        actor=f"worker:{taker.worker}",
        about=number,
        values={
            "attempts": number,
            "started_at": now,
            "finished_at": None,
            "worker": taker.worker,
            "provider": route,
            "idempotency": key,
        },
    )
    locked = Locked(row, [], now)
    history = write(locked, change, decide(row.state, Trigger.CLAIM, facts_of(locked, change)))
    if history is None:
        raise RuntimeError(f"Dispatch {row.id} was selected as claimable, but the rules say no.")
    taken = Claim(row, new_id(), number, route, key, suppressed)
    line = {
        "id": str(taken.attempt_id),
        "history_id": str(new_id()),
        "dispatch_id": str(row.id),
        "number": number,
        "worker": taker.worker,
        "queue": taker.queue,
        "claimed_at": now.isoformat(),
        "published_at": published_at.isoformat() if published_at else None,
        "route": route,
        "idempotency": key,
        "state_from": history.state_from,
        "actor": change.actor,
    }
    return taken, line


def mark(session: AnySession, claims: Sequence[Claim]) -> set[uuid.UUID]:
    """Mark the hand-over of attempts that may still go out; return the ids of those attempts.

    One statement. It locks the dispatches, so that nobody takes a row over between the look and the
    mark; `may_hand_over` says the same as its condition. Does not commit: call no provider before.
    """
    held = (
        select(Dispatch.id, Dispatch.attempts)
        .where(
            is_one_of(Dispatch.id, [one.dispatch.id for one in claims]),
            Dispatch.state == State.SENDING,
            Dispatch.cancel_noted_by == "",
            Dispatch.proven.is_(False),
        )
        .order_by(Dispatch.id)
        .with_for_update()
        .cte("held")
    )
    marked = (
        update(Attempt)
        .where(
            is_one_of(Attempt.id, [one.attempt_id for one in claims]),
            Attempt.dispatch_id == held.c.id,
            Attempt.number == held.c.attempts,
            Attempt.finished_at.is_(None),
        )
        .values(
            handed_over_at=func.clock_timestamp(),
            evidence=func.greatest(Attempt.evidence, int(Evidence.HANDED_OVER)),
        )
        .returning(Attempt.id)
        .execution_options(synchronize_session=False)
    )
    return set(session.execute(marked).scalars())
