"""board(): what providers said lately and what of it needs a person, within somebody's scope.

Four statements at most, whatever there is. Reads only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, func, literal, select, true, union_all
from sqlalchemy.orm import InstrumentedAttribute

from dashboard.access.permissions import Permission
from dashboard.access.scope import Access, scope_filter
from dashboard.database import AnySession
from dashboard.dispatch.models import Attempt, Dispatch
from dashboard.dispatch.reports.applying import MATCHED_FOR
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.providers.error_codes import TWILIO

MOST_PROVIDERS = 60
UNMATCHED_SHOWN = 50
CONFLICTS_SHOWN = 20
CODES_SHOWN = 50
COUNT_LIMIT = 1000
# A code is looked up in this many failures of each kind at most; the page is no statistic.
FAILURES_READ = 20_000
# Status codes of SMTP and HTTP say by themselves what they mean: 550, 5.1.1, 550 5.1.1, 422.
STATUS_CODE = r"^[2-5][0-9]{2}( [245]\.[0-9]+\.[0-9]+)?$|^[245]\.[0-9]+\.[0-9]+$"


@dataclass(frozen=True, slots=True)
class LastReport:
    """The last thing that a provider said."""

    provider: str
    received_at: datetime
    event: str


@dataclass(frozen=True, slots=True)
class UnknownCode:
    """An error code that nobody wrote advice for, and how often it came."""

    provider: str
    code: str
    count: int


@dataclass(frozen=True, slots=True)
class Board:
    """What the page of reports shows; lists are newest first.

    Attributes:
        unmatched: reports that belong to no attempt yet; None where the viewer may not see them,
            since nobody can tell whose they are.
        unmatched_count: of all, counted up to a thousand.
        conflicts: each with its dispatch.
    """

    now: datetime
    last: Sequence[LastReport]
    unmatched: Sequence[StoredReport] | None
    unmatched_count: int
    conflicts: Sequence[tuple[StoredReport, Dispatch]]
    codes: Sequence[UnknownCode]


def board(session: AnySession, access: Access) -> Board:
    """Read what the page of reports shows to somebody."""
    last, now = _last(session, access)
    unmatched, count = None, 0
    if access.allows_everywhere(Permission.DISPATCH_LIST):
        unmatched, count = _unmatched(session)
    return Board(
        now=now,
        last=last,
        unmatched=unmatched,
        unmatched_count=count,
        conflicts=_conflicts(session, access),
        codes=_codes(session, access),
    )


def given_up_at(report: StoredReport) -> datetime:
    """Return until when a report is matched again and again."""
    return report.received_at + MATCHED_FOR


def _in_scope(access: Access) -> ColumnElement[bool]:
    return scope_filter(Dispatch.source_id, access)


def _last(session: AnySession, access: Access) -> tuple[list[LastReport], datetime]:
    """Step from provider to provider along the index, and take the newest report of each."""
    first = select(func.min(StoredReport.provider).label("provider"))
    steps = first.cte("steps", recursive=True)
    following = (
        select(func.min(StoredReport.provider))
        .where(StoredReport.provider > steps.c.provider)
        .scalar_subquery()
    )
    steps = steps.union_all(select(following).where(steps.c.provider.is_not(None)))
    newest = select(StoredReport.received_at, StoredReport.event).where(
        StoredReport.provider == steps.c.provider
    )
    if not access.allows_everywhere(Permission.DISPATCH_LIST):
        newest = newest.join(Dispatch, Dispatch.id == StoredReport.dispatch_id)
        newest = newest.where(_in_scope(access))
    latest = newest.order_by(StoredReport.received_at.desc()).limit(1).correlate(steps).lateral()
    now = select(func.clock_timestamp().label("now")).subquery()
    query = (
        select(now.c.now, steps.c.provider, latest.c.received_at, latest.c.event)
        .select_from(now)
        .outerjoin(steps.join(latest, true()), true())
        .limit(MOST_PROVIDERS)
    )
    rows = session.execute(query).all()
    found = [LastReport(row[1], row[2], row[3]) for row in rows if row[2] is not None]
    return sorted(found, key=lambda one: one.received_at, reverse=True), rows[0][0]


def _unmatched(session: AnySession) -> tuple[Sequence[StoredReport], int]:
    waiting = StoredReport.outcome.in_([ReportOutcome.PENDING, ReportOutcome.UNMATCHED])
    some = select(StoredReport.id).where(waiting).limit(COUNT_LIMIT).subquery()
    count = select(func.count()).select_from(some).scalar_subquery()
    query = (
        select(StoredReport, count)
        .where(waiting)
        .order_by(StoredReport.received_at.desc())
        .limit(UNMATCHED_SHOWN)
    )
    rows = session.execute(query).all()
    return [row[0] for row in rows], rows[0][1] if rows else 0


def _conflicts(session: AnySession, access: Access) -> list[tuple[StoredReport, Dispatch]]:
    query = (
        select(StoredReport, Dispatch)
        .join(Dispatch, Dispatch.id == StoredReport.dispatch_id)
        .where(StoredReport.outcome == ReportOutcome.CONFLICT, _in_scope(access))
        .order_by(StoredReport.received_at.desc())
        .limit(CONFLICTS_SHOWN)
    )
    return [(row[0], row[1]) for row in session.execute(query)]


def _codes(session: AnySession, access: Access) -> list[UnknownCode]:
    said = union_all(
        _coded(access, StoredReport.provider, StoredReport.code, StoredReport.dispatch_id),
        _coded(access, Attempt.route, Attempt.code, Attempt.dispatch_id),
    ).subquery()
    count = func.count().label("count")
    query = (
        select(said.c.provider, said.c.code, count)
        .group_by(said.c.provider, said.c.code)
        .order_by(count.desc(), said.c.provider, said.c.code)
        .limit(CODES_SHOWN)
    )
    return [UnknownCode(row[0], row[1], row[2]) for row in session.execute(query)]


def _coded(
    access: Access,
    provider: InstrumentedAttribute[str],
    code: InstrumentedAttribute[str],
    dispatch_id: InstrumentedAttribute[object],
) -> Select[str, str]:
    query = select(provider.label("provider"), code.label("code")).where(
        code != "", code.not_in(sorted(TWILIO)), ~code.regexp_match(literal(STATUS_CODE))
    )
    if not access.allows_everywhere(Permission.DISPATCH_LIST):
        query = query.join(Dispatch, Dispatch.id == dispatch_id).where(_in_scope(access))
    return query.limit(FAILURES_READ).subquery().select()
