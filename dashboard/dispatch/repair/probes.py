"""Probes paused routes, without a transaction while the provider is asked."""

from datetime import timedelta

from sqlalchemy import or_, select

from dashboard.database import AnySession, database_now
from dashboard.dispatch.models import RoutePause
from dashboard.dispatch.routes import resume
from dashboard.providers.base import OutcomeKind
from dashboard.providers.registry import RouteInvalid, route
from dashboard.settings import Settings

EVERY_SECONDS = 55


def probe_routes(session: AnySession, settings: Settings) -> None:
    """Ask every paused route that probes itself whether it works again, once a minute. Commits."""
    now = database_now(session)
    # Once a minute, or in every round of a reconciler that was set to come more often.
    every = timedelta(seconds=min(EVERY_SECONDS, settings.reconcile_seconds * 0.9))
    due = or_(RoutePause.probed_at.is_(None), RoutePause.probed_at <= now - every)
    names = list(
        session.scalars(
            select(RoutePause.route).where(RoutePause.probes, RoutePause.resumed_at.is_(None), due)
        )
    )
    session.commit()
    for name in names:
        works, detail = _probe(name, settings)
        paused = session.get(RoutePause, name, with_for_update=True)
        if paused is not None:
            paused.probed_at = database_now(session)
            paused.probe_detail = detail
            if works:
                resume(session, name, detail=detail)
        session.commit()


def _probe(name: str, settings: Settings) -> tuple[bool, str]:
    try:
        outcome = route(name, settings).probe()
    except RouteInvalid as error:
        return False, str(error)
    return outcome.kind is OutcomeKind.ACCEPTED, outcome.detail[:2000]
