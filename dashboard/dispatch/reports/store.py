"""Storing what providers say: each report once, under a key made of its content. Applies nothing.

The provider's own event id is no key: some give a new one with each repeat.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence

from sqlalchemy import select, text

from dashboard.database import AnySession, new_id
from dashboard.dispatch.reports.models import ReportKey, ReportOutcome, StoredReport
from dashboard.providers.base import Report, bounded

RAW_BYTES = 16_000

STORE = text("""
    WITH came AS (
        SELECT * FROM jsonb_to_recordset(CAST(:reports AS jsonb)) AS came (
            id uuid, key text, provider text, occurred_at timestamptz, event text,
            provider_message_id text, tracking text, recipient text, reason text, code text,
            permanent boolean, raw jsonb
        )
    ), fresh AS (
        INSERT INTO report_key (key, report_id) SELECT key, id FROM came
        ON CONFLICT (key) DO NOTHING
        RETURNING report_id
    )
    INSERT INTO report (
        id, provider, occurred_at, event, provider_message_id, tracking, recipient, reason, code,
        permanent, raw, outcome, note, repeats
    )
    SELECT id, provider, occurred_at, event, provider_message_id, tracking, recipient, reason, code,
        permanent, raw, 'pending', '', 0
    FROM came WHERE id IN (SELECT report_id FROM fresh)
    RETURNING *
""")


def dedupe_key(report: Report) -> str:
    """Return the key under which the same news of the same message is stored once."""
    parts = (
        report.provider,
        report.provider_message_id or report.key,
        report.recipient,
        report.event.value,
        report.occurred_at.isoformat() if report.occurred_at else "",
        report.code,
        str(report.raw.get("click_url", "")),
        str(report.raw.get("status", "")),
    )
    joined = "\x1f".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(joined).hexdigest()


def store(session: AnySession, reports: Sequence[Report]) -> list[StoredReport]:
    """Store a batch; return what is to be applied now: one statement. Does not commit.

    A repeat of a report that is still pending is returned as well, so that it is tried again; that
    look takes a second statement.
    """
    by_key = {dedupe_key(report): report for report in reports}
    lines = [_line(key, report) for key, report in by_key.items()]
    statement = select(StoredReport).from_statement(STORE)
    fresh = {one.id: one for one in session.scalars(statement, {"reports": json.dumps(lines)})}
    ids = [uuid.UUID(str(line["id"])) for line in lines]
    repeated = [line["key"] for line, one in zip(lines, ids, strict=True) if one not in fresh]
    return [fresh[one] for one in ids if one in fresh] + _still_pending(session, repeated)


def _still_pending(session: AnySession, keys: Iterable[object]) -> list[StoredReport]:
    wanted = list(keys)
    if not wanted:
        return []
    query = (
        select(StoredReport)
        .join(ReportKey, ReportKey.report_id == StoredReport.id)
        .where(
            ReportKey.key.in_(wanted),
            StoredReport.outcome.in_([ReportOutcome.PENDING, ReportOutcome.UNMATCHED]),
        )
    )
    return list(session.scalars(query))


def _line(key: str, report: Report) -> dict[str, object]:
    raw = json.dumps(dict(report.raw), default=str)
    if "\\u0000" in raw or len(raw) > RAW_BYTES:
        raw = json.dumps({"shortened": bounded(raw.replace("\\u0000", ""), RAW_BYTES // 2)})
    return {
        "id": str(new_id()),
        "key": key,
        "provider": report.provider,
        "occurred_at": report.occurred_at.isoformat() if report.occurred_at else None,
        "event": report.event.value,
        "provider_message_id": bounded(report.provider_message_id, 500),
        "tracking": bounded(report.key, 500),
        "recipient": bounded(report.recipient, 320),
        "reason": bounded(report.reason),
        "code": bounded(report.code, 100),
        "permanent": report.permanent,
        "raw": json.loads(raw),
    }
