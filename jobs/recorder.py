"""Records outcomes, whatever the database does: waits, tries again, keeps, and at the end spools.

An outcome that is known is never given up while the process, or the disk of its host, lives.
"""

import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from sqlalchemy.exc import DBAPIError

from dashboard.database import db
from dashboard.dispatch import outcomes, routes
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.outcomes import Judge, Result
from dashboard.dispatch.reports import applying as reports
from dashboard.dispatch.states import Channel, Trigger
from dashboard.dispatch.transitions import Change, lock, move
from dashboard.providers.base import Capabilities, OutcomeKind
from dashboard.settings import Settings
from jobs import spool

logger = logging.getLogger("wireroom.worker")

TRIES = 3
ROUTE_FAILURES = 5
PATIENCE_SECONDS = 1.0

Found = TypeVar("Found")


class Recorder:
    """Keeps the outcomes of one worker until they are written."""

    def __init__(
        self,
        settings: Settings,
        worker: str,
        capabilities: Mapping[tuple[Channel, str], Capabilities],
    ) -> None:
        self.settings = settings
        self.done = 0
        self.failed = 0
        self._worker = worker
        self._capabilities = capabilities
        self._kept: list[Result] = spool.take(settings.data_dir)
        self._failures_in_a_row: dict[str, int] = {}

    def record(self, results: Sequence[Result]) -> None:
        """Write outcomes; what the database does not take now is kept and tried again."""
        self._kept += results
        self.flush()

    def flush(self) -> None:
        """Write what is kept, each time in a new transaction, up to three times."""
        results = self._kept
        if not results or not _in_transactions(lambda: self._write(results)):
            return
        self._kept = []
        self._apply_early_reports(results)
        self.done += len(results)
        self.failed += sum(one.outcome.kind is not OutcomeKind.ACCEPTED for one in results)

    def _apply_early_reports(self, results: Sequence[Result]) -> None:
        """Apply reports that were faster than we were at storing the provider's id."""
        known = [
            one.outcome.provider_message_id
            for one in results
            if one.outcome.report_expected and one.outcome.provider_message_id
        ]
        if known:
            in_transaction(lambda: reports.apply_early(db.session, known))

    def wait_for_database(self, is_stopping: Callable[[], bool]) -> None:
        """Try until what is kept is written, or the worker has to stop."""
        while self._kept and not is_stopping():
            time.sleep(PATIENCE_SECONDS)
            self.flush()

    def close(self) -> None:
        """Write what is kept, or put it on the disk for the next worker of this host."""
        self.flush()
        if self._kept:
            spool.put(self.settings.data_dir, self._worker, self._kept)
            logger.error("outcomes spooled", extra={"count": len(self._kept)})

    def step_back(self, refused: Sequence[tuple[uuid.UUID, uuid.UUID]]) -> None:
        """Close attempts whose hand-over was refused: taken over, cancelled or already arrived."""
        for dispatch_id, _ in refused:
            logger.info("dispatch not handed over", extra={"dispatch_id": dispatch_id})
        _in_transactions(lambda: self._close(dict(refused)))

    def _write(self, results: Sequence[Result]) -> None:
        by_route: dict[tuple[Channel, str], list[Result]] = {}
        for result in results:
            by_route.setdefault((result.channel, result.route), []).append(result)
        for (channel, route), some in by_route.items():
            capabilities = self._capabilities.get((channel, route), Capabilities())
            judge = Judge(self.settings, f"worker:{self._worker}", capabilities)
            outcomes.record(db.session, some, judge)
            self._watch(route, some)

    def _watch(self, route: str, results: Sequence[Result]) -> None:
        """Pause a route at once for its configuration, or after five failures in a row."""
        for result in results:
            kind = result.outcome.kind
            if kind is OutcomeKind.ACCEPTED or result.outcome.about_recipient:
                self._failures_in_a_row[route] = 0
            elif kind is OutcomeKind.CONFIG:
                routes.pause(db.session, route, result.outcome.detail)
            elif kind in (OutcomeKind.TRANSIENT, OutcomeKind.UNKNOWN):
                count = self._failures_in_a_row.get(route, 0) + 1
                self._failures_in_a_row[route] = count
                if count >= ROUTE_FAILURES:
                    self._failures_in_a_row[route] = 0
                    reason = f"{count} failures in a row; the last: {result.outcome.detail}"
                    routes.pause(db.session, route, reason)

    def _close(self, refused: Mapping[uuid.UUID, uuid.UUID]) -> None:
        for locked in lock(db.session, list(refused)):
            own = [one for one in locked.attempts if one.id == refused[locked.dispatch.id]]
            current = locked.open_attempt in own
            for attempt in own:
                attempt.finished_at = attempt.finished_at or locked.now
                attempt.detail = attempt.detail or "Not handed over: it may not go out any more."
            # It was not called, whoever closed it as lost meanwhile: that is news as well.
            trigger = Trigger.STALL if current else Trigger.DEFER
            actor = f"worker:{self._worker}"
            change = Change(trigger, actor, about=own[0].number, evidence=Evidence.ABSENT)
            move(db.session, locked, change)


def in_transaction(step: Callable[[], Found]) -> Found | None:
    """Run and commit a step; return what it found, or None when the database did not take it."""
    try:
        found = step()
        db.session.commit()
    except DBAPIError as error:
        db.session.rollback()
        db.session.remove()
        logger.warning("database did not answer", extra={"error": str(error.orig)[:200]})
        return None
    return found


def _in_transactions(step: Callable[[], None]) -> bool:
    """Run and commit a step, each time in a new transaction, up to three times."""

    def once() -> bool:
        step()
        return True

    return any(in_transaction(once) for _ in range(TRIES))
