"""Applying what providers say: match, note it on its own attempt, settle, write what came of it.

Each report is a transaction of its own, so that a bad one never costs the others.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import or_, select
from sqlalchemy.exc import OperationalError

from dashboard.database import AnySession, database_now
from dashboard.dispatch.decisions import Decision, Verdict
from dashboard.dispatch.facts import Evidence, rises
from dashboard.dispatch.matching import Match, find
from dashboard.dispatch.report_models import ReportOutcome, StoredReport
from dashboard.dispatch.report_store import store
from dashboard.dispatch.states import Channel, Failure, Trigger
from dashboard.dispatch.transitions import Change, move
from dashboard.providers.base import Event, Report

logger = logging.getLogger("wireroom.reports")

INLINE = 50
LOCK_SECONDS = 0.5
LOCK_STEP_SECONDS = 0.05
MATCHED_FOR = timedelta(hours=2)

TRIGGERS = {
    Event.IN_FLIGHT: Trigger.REPORT_IN_FLIGHT,
    Event.DEFERRED: Trigger.REPORT_IN_FLIGHT,
    Event.DELIVERED: Trigger.REPORT_DELIVERED,
    Event.FAILED: Trigger.REPORT_FAILED,
    Event.CANCELLED: Trigger.REPORT_CANCELLED,
}


@dataclass(frozen=True, slots=True)
class Received:
    """What came of a batch."""

    stored: int
    applied: int


def receive(session: AnySession, reports: Sequence[Report]) -> Received:
    """Store a batch and apply at most fifty of it now; the rest is for `match_reports`. Commits.

    Raises:
        SQLAlchemyError: only when nothing could be stored: then the provider has to repeat it.
    """
    ids = store(session, reports)
    session.commit()
    applied = sum(apply_one(session, one) for one in ids[:INLINE])
    return Received(len(ids), applied)


def apply_one(session: AnySession, report_id: uuid.UUID) -> bool:
    """Apply one stored report; wait at most half a second for its dispatch. Commits.

    Returns whether it is dealt with; False leaves it pending for `match_reports`.
    """
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            report = session.get(StoredReport, report_id, populate_existing=False)
            if report is None or report.outcome not in _OPEN:
                session.commit()
                return True
            _apply(session, report)
            session.commit()
        except OperationalError:
            session.rollback()
            if time.monotonic() > until:
                logger.info("report waits", extra={"report_id": report_id})
                return False
            time.sleep(LOCK_STEP_SECONDS)
        else:
            return True


_OPEN = (ReportOutcome.PENDING, ReportOutcome.UNMATCHED)


def _apply(session: AnySession, report: StoredReport) -> None:
    match = find(session, report)
    if match is None:
        report.outcome = ReportOutcome.UNMATCHED
        return
    report.dispatch_id = match.locked.dispatch.id
    report.attempt = match.attempts[-1].number if match.attempts else None
    wrong = match.mismatch or _wrong_recipient(report, match)
    if wrong:
        report.outcome, report.note = ReportOutcome.IGNORED, wrong
        return
    _note_side_facts(report, match)
    trigger = TRIGGERS.get(Event(report.event))
    if trigger is None:
        report.outcome = ReportOutcome.APPLIED
        return
    _share(match, report)
    decision = move(session, match.locked, _change(report, match, trigger))
    report.outcome, report.note = _outcome(decision, report)


def _wrong_recipient(report: StoredReport, match: Match) -> str:
    """Return why a report is about somebody else; providers report copies under one id."""
    named = report.recipient.strip().strip("<>").lower()
    row = match.locked.dispatch
    own = {row.recipient.lower(), row.recipient_normalised.lower()}
    return "" if not named or named in own else "It is about another recipient of the message."


def _note_side_facts(report: StoredReport, match: Match) -> None:
    row = match.locked.dispatch
    if report.event == Event.COMPLAINED.value:
        row.complained = True
    if report.event == Event.DEFERRED.value and not row.state.is_done and report.reason:
        row.error = report.reason


def _evidence(report: StoredReport, channel: Channel) -> Evidence:
    match Event(report.event):
        case Event.DELIVERED:
            return Evidence.DELIVERED
        case Event.FAILED if report.permanent and channel is Channel.EMAIL:
            return Evidence.BOUNCED
        case Event.FAILED | Event.CANCELLED:
            return Evidence.FAILED
        case _:
            return Evidence.IN_FLIGHT


def _share(match: Match, report: StoredReport) -> None:
    """Let attempts that went out under one provider id share its news."""
    channel = match.locked.dispatch.channel
    news = _evidence(report, channel)
    for attempt in match.attempts[:-1]:
        if rises(Evidence(attempt.evidence), news, channel):
            attempt.evidence = int(news)


def _change(report: StoredReport, match: Match, trigger: Trigger) -> Change:
    row = match.locked.dispatch
    values: dict[str, object] = {}
    if trigger is Trigger.REPORT_FAILED:
        values = {
            "failure": Failure.REPORT,
            "permanent": report.permanent,
            "error": report.reason or row.error or "The provider reports that it failed.",
        }
    elif trigger is Trigger.REPORT_CANCELLED:
        values = {"error": report.reason or "The provider cancelled it."}
    return Change(
        trigger,
        actor=f"provider:{report.provider}",
        about=match.attempts[-1].number,
        evidence=_evidence(report, row.channel),
        permanent=report.permanent,
        note=report.reason,
        values=values,
    )


def _outcome(decision: Decision, report: StoredReport) -> tuple[ReportOutcome, str]:
    if decision.conflict:
        return ReportOutcome.CONFLICT, "It contradicts what is known of this attempt."
    if decision.verdict is Verdict.MOVED:
        return ReportOutcome.APPLIED, ""
    return ReportOutcome.IGNORED, report.note


def match_waiting(session: AnySession, limit: int = 500) -> tuple[int, int]:
    """Apply what is pending or unmatched, up to two hours old; return found and dealt with.

    Commits each. Older ones stay unmatched and are listed with why.
    """
    now = database_now(session)
    ids = list(
        session.scalars(
            select(StoredReport.id)
            .where(
                StoredReport.received_at > now - MATCHED_FOR,
                or_(
                    StoredReport.outcome == ReportOutcome.PENDING,
                    StoredReport.outcome == ReportOutcome.UNMATCHED,
                ),
            )
            .order_by(StoredReport.received_at)
            .limit(limit)
        )
    )
    session.commit()
    dealt = 0
    for one in ids:
        apply_one(session, one)
        after = session.get(StoredReport, one)
        dealt += after is not None and after.outcome not in _OPEN
        session.commit()
    return len(ids), dealt
