"""Routes that take nothing: pausing with a reason, probing, resuming with one.

A pause is a row that every claim sees; `release` keeps the hold of the waiting rows in step.
"""

import logging
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert

from dashboard.database import AnySession, database_now
from dashboard.dispatch.models import Attempt, Dispatch, RoutePause
from dashboard.dispatch.states import Channel, State
from dashboard.providers.base import OutcomeKind
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.routes")

REASON_LIMIT = 2000


def pause(
    session: AnySession, route: str, reason: str, *, by: str = "", probes: bool = True
) -> bool:
    """Pause a route; return whether it was open before. Does not commit.

    Args:
        reason: shown on every page until the route is resumed.
        by: the person, or empty for the worker that met the trouble.
        probes: whether it probes itself; what a person paused, a person resumes.
    """
    paused = insert(RoutePause).values(
        route=route, reason=reason[:REASON_LIMIT], by=by, probes=probes
    )
    fresh = session.execute(
        paused.on_conflict_do_update(
            index_elements=[RoutePause.route],
            set_={"reason": reason[:REASON_LIMIT], "resumed_at": None, "trial_id": None},
            where=RoutePause.resumed_at.is_not(None),
        ).returning(RoutePause.route)
    ).first()
    if fresh:
        logger.error("route paused", extra={"provider": route, "reason": reason[:200]})
    return fresh is not None


def resume(session: AnySession, route: str, *, detail: str = "") -> None:
    """Let a route try one dispatch; when that one went out, all others follow. Does not commit."""
    paused = session.get(RoutePause, route, with_for_update=True)
    if paused is None or paused.resumed_at is not None:
        return
    paused.resumed_at = database_now(session)
    paused.probe_detail = detail[:REASON_LIMIT]
    paused.trial_id = None
    logger.warning("route resumed", extra={"provider": route})


def channel_of(route: str, settings: Settings) -> list[Channel]:
    """Return the channels that go out by a route under these settings."""
    return [
        channel
        for channel, configured in (
            (Channel.EMAIL, settings.email_route),
            (Channel.SMS, settings.sms_route),
        )
        if configured == route
    ]


def conclude_trial(session: AnySession, paused: RoutePause, now: datetime) -> bool:
    """Open a resumed route for good once its trial went out; return whether it is open now.

    A trial that the provider refused for its recipient's sake proves the route as well. Does not
    commit.
    """
    if paused.trial_id is None or paused.resumed_at is None:
        return False
    outcome = session.scalars(
        select(Attempt.outcome)
        .where(
            Attempt.dispatch_id == paused.trial_id,
            Attempt.claimed_at >= paused.resumed_at,
            Attempt.finished_at.is_not(None),
        )
        .order_by(Attempt.number.desc())
        .limit(1)
    ).first()
    trial = session.get(Dispatch, paused.trial_id)
    gone = trial is None or not (trial.state.is_waiting or trial.state is State.SENDING)
    if outcome in (OutcomeKind.ACCEPTED, OutcomeKind.PERMANENT) or gone:
        session.delete(paused)
        logger.warning("route open", extra={"provider": paused.route, "at": now.isoformat()})
        return True
    if outcome is not None:
        # Neither proof nor a new pause (transient): the next waiting one has its turn.
        paused.trial_id = None
    return False
