"""Publishing what may be claimed, and what happens when Redis does not take it.

`release` is a slice of the outbox: PostgreSQL says what is due, Redis is only told.
"""

import logging
import uuid
from collections.abc import Iterable, Sequence

from sqlalchemy import and_, exists, func, or_, select, update

from dashboard.database import AnySession
from dashboard.dispatch.claims import claimable, route_is_open
from dashboard.dispatch.models import Dispatch, RoutePause
from dashboard.dispatch.routes import channel_of, conclude_trial
from dashboard.dispatch.states import WAITING, Channel, Failure, Hold, NextStep, Trigger
from dashboard.dispatch.transitions import Change, lock, move
from dashboard.queueing.publish import PublishFailed, publish
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.dispatch")

SLICE = 1000


def publish_or_note(
    session: AnySession, by_queue: Iterable[tuple[str, Sequence[uuid.UUID]]], settings: Settings
) -> bool:
    """Publish committed dispatches; note the failure on rows that Redis did not take.

    Never raises for Redis: the rows are safe and the request has succeeded. Commits the note.
    Returns whether Redis took all of them.
    """
    taken = True
    for queue, ids in by_queue:
        try:
            publish(queue, ids, settings)
        except PublishFailed as error:
            taken = False
            logger.error(
                "publish failed", extra={"queue": queue, "count": len(ids), "error": str(error)}
            )
            fail_publish(session, ids, str(error))
    return taken


def fail_publish(session: AnySession, ids: Sequence[uuid.UUID], reason: str) -> None:
    """Note that Redis did not take the jobs of these dispatches. Commits.

    Rows that a worker claimed all the same (the job did arrive) stay as they are; rows that wait
    for a later try are left to `release`.
    """
    for locked in lock(session, list(ids)):
        change = Change(
            Trigger.FAIL_PUBLISH,
            actor="publisher",
            values={"failure": Failure.PUBLISH, "error": f"Redis did not take it: {reason}"[:2000]},
        )
        move(session, locked, change)
        locked.dispatch.published_at = None
    session.commit()


def release(session: AnySession, settings: Settings, limit: int = SLICE) -> int:
    """Publish what is claimable and not published, oldest first; return how many. Commits.

    The rows are stamped and committed before Redis is told: a crash between the two leaves a lost
    job, which the reconciler finds; the other order could publish for ever.
    """
    keep_holds(session, settings)
    now = func.statement_timestamp()
    open_routes = or_(
        and_(Dispatch.channel == Channel.EMAIL, route_is_open(settings.email_route)),
        and_(Dispatch.channel == Channel.SMS, route_is_open(settings.sms_route)),
    )
    due = (
        select(Dispatch.id)
        .where(claimable(now), Dispatch.published_at.is_(None), open_routes)
        .order_by(Dispatch.due_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    stamped = session.execute(
        update(Dispatch)
        .where(Dispatch.id.in_(due))
        .values(published_at=func.clock_timestamp())
        .returning(Dispatch.id, Dispatch.queue, Dispatch.losses, Dispatch.due_at)
        .execution_options(synchronize_session=False)
    ).all()
    session.commit()
    rows = sorted(stamped, key=lambda row: row.due_at)
    by_queue: list[tuple[str, list[uuid.UUID]]] = [
        (queue, [row.id for row in rows if row.queue == queue and not row.losses])
        for queue in sorted({row.queue for row in rows})
    ]
    # Alone, since one of them may be what killed its worker.
    alone = [(row.queue, [row.id]) for row in rows if row.losses]
    for queue, ids in [*by_queue, *alone]:
        _publish_slice(session, queue, ids, settings)
    return len(rows)


def _publish_slice(
    session: AnySession, queue: str, ids: Sequence[uuid.UUID], settings: Settings
) -> None:
    try:
        if ids:
            publish(queue, ids, settings)
    except PublishFailed as error:
        logger.warning("release failed", extra={"queue": queue, "error": str(error)})
        unpublish(session, ids)


def unpublish(session: AnySession, ids: Sequence[uuid.UUID]) -> None:
    """Take back the stamp of waiting dispatches, so that `release` publishes them. Commits."""
    session.execute(
        update(Dispatch)
        .where(Dispatch.id.in_(list(ids)), Dispatch.state.in_(WAITING))
        .values(published_at=None)
        .execution_options(synchronize_session=False)
    )
    session.commit()


def forget_published(session: AnySession) -> int:
    """Take back the stamp of every waiting dispatch: Redis was emptied. Commits."""
    gone = session.execute(
        update(Dispatch)
        .where(Dispatch.state.in_(WAITING), Dispatch.published_at.is_not(None))
        .values(published_at=None)
        .returning(Dispatch.id)
        .execution_options(synchronize_session=False)
    ).all()
    session.commit()
    return len(gone)


def keep_holds(session: AnySession, settings: Settings) -> None:
    """Bring the hold of waiting rows in step with which routes are paused. Commits.

    A resumed route gets one due row to try with; when that one went out the others follow. Where
    nothing is due, it is open.
    """
    for paused in session.scalars(select(RoutePause).with_for_update(skip_locked=True)).all():
        channels = channel_of(paused.route, settings)
        if paused.resumed_at is None:
            _hold(session, channels)
        elif not conclude_trial(session, paused, paused.resumed_at) and paused.trial_id is None:
            paused.trial_id = _lift_one(session, channels)
            if paused.trial_id is None:
                session.delete(paused)
    session.commit()
    _lift_all(session, settings)


def _hold(session: AnySession, channels: Sequence[Channel]) -> None:
    session.execute(
        update(Dispatch)
        .where(
            Dispatch.state.in_(WAITING),
            Dispatch.hold == Hold.NONE,
            Dispatch.channel.in_(channels),
        )
        .values(hold=Hold.ROUTE, published_at=None)
        .execution_options(synchronize_session=False)
    )


def _lift_one(session: AnySession, channels: Sequence[Channel]) -> uuid.UUID | None:
    """Lift the hold of the oldest that is due: one of tomorrow would keep all others waiting."""
    now = func.statement_timestamp()
    oldest = session.scalars(
        select(Dispatch)
        .where(
            Dispatch.state.in_(WAITING),
            Dispatch.hold == Hold.ROUTE,
            Dispatch.due_at <= now,
            or_(Dispatch.expires_at.is_(None), Dispatch.expires_at > now),
            Dispatch.next_step == NextStep.SEND,
            Dispatch.channel.in_(channels),
            Dispatch.replaced_by_id.is_(None),
        )
        .order_by(Dispatch.due_at)
        .limit(1)
        .with_for_update(skip_locked=True)
    ).first()
    if oldest is None:
        return None
    oldest.hold = Hold.NONE
    oldest.published_at = None
    return oldest.id


def _lift_all(session: AnySession, settings: Settings) -> None:
    """Lift the hold of rows whose route is open; the claim itself guards the ones it meets."""
    for route in {settings.email_route, settings.sms_route}:
        if session.scalar(select(exists().where(RoutePause.route == route))):
            continue
        session.execute(
            update(Dispatch)
            .where(
                Dispatch.state.in_(WAITING),
                Dispatch.hold == Hold.ROUTE,
                Dispatch.channel.in_(channel_of(route, settings)),
            )
            .values(hold=Hold.NONE, published_at=None)
            .execution_options(synchronize_session=False)
        )
    session.commit()
