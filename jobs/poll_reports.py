"""The periodic task that asks providers about what awaits a report and what is doubtful."""

import time

from dashboard.database import db
from dashboard.dispatch.reports.polling import Answering, Poll, poll
from dashboard.providers.registry import RouteInvalid, sms_route
from dashboard.settings import current
from jobs.task import task_run


def run() -> None:
    """Ask the SMS route, if it can be asked."""
    with task_run("poll_reports") as tally:
        try:
            provider = sms_route(current())
        except RouteInvalid:
            return
        if isinstance(provider, Answering):
            poll(db.session, Poll(current(), provider, tally, time.sleep))
