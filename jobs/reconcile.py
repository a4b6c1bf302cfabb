"""The periodic task that finds and repairs what went silent, and probes paused routes."""

from dashboard.database import db
from dashboard.dispatch.repair.passes import reconcile
from dashboard.dispatch.repair.probes import probe_routes
from dashboard.dispatch.repair.round import Round
from dashboard.dispatch.states import Channel
from dashboard.providers.base import Capabilities
from dashboard.providers.registry import RouteInvalid, route
from dashboard.queueing.publish import waiting_jobs
from dashboard.settings import current
from jobs.task import task_run


def run() -> None:
    """Run one round of the reconciler."""
    with task_run("reconcile") as tally:
        this = Round(current(), waiting_jobs, capabilities_of, tally)
        reconcile(db.session, this)
        probe_routes(db.session, current())


def capabilities_of(channel: Channel, name: str) -> Capabilities:
    """Return what a route can do; nothing at all for one that is not configured any more."""
    try:
        return route(name, current(), channel=channel.value).capabilities
    except RouteInvalid:
        return Capabilities()
