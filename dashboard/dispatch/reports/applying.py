"""Applying what providers say: match, note it on its own attempt, settle, write what came of it.

Each report is a transaction of its own, so that a bad one never costs the others.
"""

import logging
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func, insert, or_, select, update
from sqlalchemy.exc import OperationalError

from dashboard.database import AnySession, database_now, is_one_of
from dashboard.dispatch.decisions import Decision, Verdict
from dashboard.dispatch.facts import Evidence, rises
from dashboard.dispatch.models import Dispatch, Transition
from dashboard.dispatch.reports.matching import Match, find
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.reports.store import store
from dashboard.dispatch.states import Channel, Failure, Trigger
from dashboard.dispatch.suppressions import ends_by_report, suppress
from dashboard.dispatch.transitions import Change, apply, columns_of
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
    stored = store(session, reports)
    session.commit()
    applied = sum(apply_one(session, one) for one in stored[:INLINE])
    return Received(len(stored), applied)


def apply_one(session: AnySession, report: StoredReport) -> bool:
    """Apply one stored report; wait at most half a second for its dispatch. Commits.

    Returns whether it is dealt with; False leaves it pending for `match_reports`.
    """
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            verdict = _apply(session, report)
            session.flush()
            _write(session, report, verdict)
            session.commit()
        except OperationalError:
            session.rollback()
            if time.monotonic() > until:
                logger.info("report waits", extra={"report_id": report.id})
                return False
            time.sleep(LOCK_STEP_SECONDS)
        else:
            return True


_OPEN = (ReportOutcome.PENDING, ReportOutcome.UNMATCHED)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What came of a report: to be written with the line of history it made, if any.

    Attributes:
        suppresses: the dispatch to whose recipient nothing more is to go.
    """

    outcome: ReportOutcome
    note: str = ""
    dispatch_id: uuid.UUID | None = None
    attempt: int | None = None
    history: Transition | None = None
    suppresses: Dispatch | None = None


def _write(session: AnySession, report: StoredReport, verdict: _Verdict) -> None:
    """Write what came of a report, and its line of history, in one statement.

    Only while the report is open: two processes may have had it at the same time.
    """
    written = (
        update(StoredReport)
        .where(StoredReport.id == report.id, StoredReport.outcome.in_(_OPEN))
        .values(
            outcome=verdict.outcome,
            note=verdict.note,
            dispatch_id=verdict.dispatch_id,
            attempt=verdict.attempt,
        )
        .execution_options(synchronize_session=False)
    )
    if verdict.history is not None:
        line = insert(Transition).values(columns_of(verdict.history)).cte("line")
        written = written.add_cte(line)
    if verdict.suppresses is not None:
        reason = report.reason or report.code
        written = written.add_cte(suppress(verdict.suppresses, reason).cte("suppressed"))
    session.execute(written)


def _apply(session: AnySession, report: StoredReport) -> _Verdict:
    match = find(session, report)
    if match is None:
        return _Verdict(ReportOutcome.UNMATCHED)
    dispatch_id = match.locked.dispatch.id
    number = match.attempts[-1].number if match.attempts else None
    wrong = match.mismatch or _wrong_recipient(report, match)
    if wrong:
        return _Verdict(ReportOutcome.IGNORED, wrong, dispatch_id, number)
    _note_side_facts(report, match)
    trigger = TRIGGERS.get(Event(report.event))
    if trigger is None:
        return _Verdict(ReportOutcome.APPLIED, "", dispatch_id, number)
    _share(match, report)
    decision, history = apply(match.locked, _change(report, match, trigger))
    gone = ends_by_report(report, match.locked.dispatch.channel)
    suppresses = match.locked.dispatch if gone else None
    return _Verdict(*_outcome(decision), dispatch_id, number, history, suppresses)


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


def _outcome(decision: Decision) -> tuple[ReportOutcome, str]:
    if decision.conflict:
        return ReportOutcome.CONFLICT, "It contradicts what is known of this attempt."
    if decision.verdict is Verdict.MOVED:
        return ReportOutcome.APPLIED, ""
    return ReportOutcome.IGNORED, ""


def apply_early(session: AnySession, provider_message_ids: Sequence[str]) -> int:
    """Apply the unmatched reports of messages whose provider's id is known now. Commits each."""
    query = (
        select(StoredReport)
        .where(
            StoredReport.outcome.in_(_OPEN),
            StoredReport.provider_message_id.in_(provider_message_ids),
        )
        .order_by(StoredReport.received_at)
    )
    early = list(session.scalars(query))
    return sum(apply_one(session, one) for one in early)


def match_waiting(session: AnySession, limit: int = 500) -> tuple[int, int]:
    """Apply what is pending or unmatched, up to two hours old; return found and dealt with.

    Commits each. Older ones stay unmatched and are listed with why.
    """
    now = database_now(session)
    query = (
        select(StoredReport)
        .where(
            StoredReport.received_at > now - MATCHED_FOR,
            or_(
                StoredReport.outcome == ReportOutcome.PENDING,
                StoredReport.outcome == ReportOutcome.UNMATCHED,
            ),
        )
        .order_by(StoredReport.received_at)
        .limit(limit)
        .execution_options(populate_existing=True)
    )
    waiting = list(session.scalars(query))
    session.commit()
    for one in waiting:
        apply_one(session, one)
    ids = [one.id for one in waiting]
    open_still = select(func.count()).where(
        is_one_of(StoredReport.id, ids), StoredReport.outcome.in_(_OPEN)
    )
    left = session.scalar(open_still) or 0
    session.commit()
    return len(waiting), len(waiting) - left
