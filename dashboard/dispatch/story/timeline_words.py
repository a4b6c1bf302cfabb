"""What each line of a dispatch's history says. Pure; merging and folding: see `timeline.py`."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from dashboard.access.models import Activity
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.reports.words import contradiction, raw_lines, said
from dashboard.dispatch.states import LABELS, State, Trigger
from dashboard.dispatch.story.timeline_entries import Entry, Kind, Lane
from dashboard.dispatch.story.wording import actor_name, clipped, count_of, full_stop, mask
from dashboard.providers.base import Event
from dashboard.providers.error_codes import advice_for

SHOWN = 400
SLOW_SECONDS = 1.0
CLOCKS_APART = timedelta(seconds=2)
OUTCOMES = frozenset(
    {Trigger.ACCEPT, Trigger.COMPLETE, Trigger.DEFER, Trigger.FAIL, Trigger.DOUBT, Trigger.LOSE}
)

# Who is in bold, and what follows; {who}, {note} and {route} are filled in.
WORDS: Mapping[str, tuple[Lane, str, str]] = {
    "request": (Lane.US, "Requested", "by {who}{target}"),
    Trigger.CLAIM: (Lane.US, "Taken", "by {who}"),
    Trigger.ACCEPT: (Lane.PROVIDER, "{route}", "accepted it{id}"),
    Trigger.COMPLETE: (Lane.PROVIDER, "{route}", "accepted it{id}; it gives no reports"),
    Trigger.DEFER: (Lane.PROVIDER, "{route}", "{quote}"),
    Trigger.FAIL: (Lane.PROVIDER, "{route}", "{quote}"),
    Trigger.DOUBT: (Lane.US, "Nobody can say", "whether attempt {number} arrived"),
    Trigger.LOSE: (Lane.US, "Nobody can say", "whether it arrived"),
    Trigger.WITHDRAW: (Lane.US, "Withdrawn", "by the code that builds it"),
    Trigger.FAIL_PUBLISH: (Lane.US, "Redis", "did not take its job"),
    Trigger.REPORT_IN_FLIGHT: (Lane.PROVIDER, "{who}", "has it on its way"),
    Trigger.REPORT_DELIVERED: (Lane.PROVIDER, "{who}", "reported that it was delivered"),
    Trigger.REPORT_FAILED: (Lane.PROVIDER, "{who}", "reported that it failed"),
    Trigger.REPORT_CANCELLED: (Lane.PROVIDER, "{who}", "reported that it was cancelled"),
    Trigger.TIME_OUT: (Lane.US, "No report", "came in time"),
    Trigger.STALL: (Lane.US, "Stalled:", "no worker completed it"),
    Trigger.GIVE_UP: (Lane.US, "Gave up:", "no worker completed it"),
    Trigger.EXPIRE: (Lane.US, "Expired:", "it was not sent in time"),
    Trigger.RETRY: (Lane.OPERATOR, "{who}", "pressed Try again"),
    Trigger.REPLACE: (Lane.OPERATOR, "{who}", "pressed Resend"),
    Trigger.CANCEL: (Lane.OPERATOR, "{who}", "cancelled it"),
}
OWN_NOTES = frozenset({Trigger.ACCEPT, Trigger.COMPLETE, Trigger.DEFER, Trigger.FAIL})
ACTORS = {"reconciler": "The reconciler", "publisher": "Wireroom", "scheduler": "The scheduler"}


def attempt_entry(move: Transition, attempt: Attempt) -> Entry:
    """Return the line of a claim, with its hand-over."""
    text = f"taken by {attempt.worker}"
    if attempt.handed_over_at is not None:
        text += f" and handed over to {attempt.route or 'its route'}"
    elif attempt.finished_at is not None:
        text += ", not handed over"
    return Entry(
        at=move.at,
        lane=Lane.US,
        who=f"Attempt {attempt.number}",
        text=text,
        kind=Kind.ATTEMPT,
        attempt=attempt.number,
        tint=State.SENDING if attempt.finished_at is None else None,
    )


def move_entry(row: Dispatch, move: Transition, attempt: Attempt | None) -> Entry:
    """Return the line of one move."""
    lane, who, text = WORDS.get(move.trigger, (Lane.US, move.trigger.capitalize(), ""))
    values = _values(row, move, attempt)
    if lane is Lane.OPERATOR and not move.actor.startswith(("user:", "token:", "cli:")):
        lane = Lane.US
    if lane is Lane.PROVIDER and attempt is not None and not attempt.handed_over_at:
        lane = Lane.US
    moved = move.trigger != "request"
    return Entry(
        at=move.at,
        lane=lane,
        who=_filled(who, values),
        text=_filled(text, values),
        note=_note(row, move, attempt),
        state=State(move.state_to) if moved else None,
        kind=Kind.OUTCOME if move.trigger in OUTCOMES else Kind.OTHER,
        attempt=move.attempt or 0,
        advice=advice_for(attempt.code) if attempt and move.trigger in OUTCOMES else None,
    )


def _values(row: Dispatch, move: Transition, attempt: Attempt | None) -> dict[str, str]:
    target = f" for {row.target_type} {row.target_id}" if row.target_type else ""
    detail = clipped((attempt.detail if attempt else "") or move.note, SHOWN)
    message_id = attempt.provider_message_id if attempt else ""
    return {
        "who": _who(move.actor),
        "target": target,
        "route": (attempt.route if attempt else "") or row.provider or "Wireroom",
        "id": f" as {message_id}" if message_id else "",
        "quote": f"“{detail}”" if detail else "did not take it",
        "number": str(move.attempt or ""),
    }


def _filled(words: str, values: Mapping[str, str]) -> str:
    """Fill in values without reading markup or braces in them."""
    for name, value in values.items():
        words = words.replace(f"{{{name}}}", value)
    return words


def _who(actor: str) -> str:
    kind, _, name = actor.partition(":")
    if kind == "token" and "/" in name:
        source, _, token = name.partition("/")
        return f"{source}, token “{token}”"
    return ACTORS.get(actor) or (name if kind in ("user", "provider", "worker", "cli") else actor)


def _note(row: Dispatch, move: Transition, attempt: Attempt | None) -> str:
    if move.trigger == "request":
        files = f", {count_of(row.file_count, 'file')}" if row.file_count else ""
        resent = f" {full_stop(move.note)}" if move.note else ""
        return f"{row.kind}{files}.{resent}" if resent else f"{row.kind}{files}"
    note = "" if move.trigger in OWN_NOTES else move.note
    if move.trigger == Trigger.CANCEL and note:
        note = f"“{note}”"
    if move.trigger in OWN_NOTES and attempt is not None:
        note = _took(attempt)
    repeats = f"{count_of(move.repeats, 'time')} more" if move.repeats else ""
    return ". ".join(one for one in (clipped(note, SHOWN).rstrip("."), repeats) if one)


def _took(attempt: Attempt) -> str:
    """Return how long the provider took to answer."""
    if attempt.handed_over_at is None or attempt.finished_at is None:
        return ""
    seconds = (attempt.finished_at - attempt.handed_over_at).total_seconds()
    return f"answered in {seconds:.1f}\u00a0s" if seconds >= SLOW_SECONDS else ""


def late_entry(attempt: Attempt) -> Entry:
    """Return the line of an outcome that came when the dispatch was elsewhere already."""
    heard = f"“{clipped(attempt.detail, SHOWN)}”" if attempt.detail else "its outcome"
    evidence = Evidence(attempt.evidence)
    sure = " It may have arrived." if evidence.may_have_arrived else ""
    return Entry(
        at=attempt.finished_at or attempt.claimed_at,
        lane=Lane.US,
        who=f"Attempt {attempt.number}",
        text=f"ended late with {heard}",
        note=f"Recorded; it moved nothing.{sure}",
        kind=Kind.OUTCOME,
        attempt=attempt.number,
    )


FINAL_EVENTS = frozenset({Event.DELIVERED, Event.FAILED, Event.CANCELLED})
CAME_OF_IT = {
    ReportOutcome.PENDING: "Not applied yet.",
    ReportOutcome.IGNORED: "It changed nothing.",
    ReportOutcome.DUPLICATE: "A repeat; it changed nothing.",
    ReportOutcome.UNMATCHED: "It matches no attempt.",
}


def report_entry(
    report: StoredReport, state: State | None, row: Dispatch, *, reveals: bool = True
) -> Entry:
    """Return the line of a report, with the state that it led to, if it led to one."""
    event = report.event.replace("_", " ")
    reason = f": {clipped(said(report.reason, reveals=reveals), SHOWN)}" if report.reason else ""
    code = f" (code {report.code})" if report.code else ""
    came = "" if state else _came_of(report, row)
    repeats = f"{count_of(report.repeats, 'repeat')}." if report.repeats else ""
    other = ""
    if report.recipient and report.recipient.lower() != row.recipient_normalised.lower():
        other = f"About another recipient, {mask(report.recipient)}."
    return Entry(
        at=report.received_at,
        lane=Lane.PROVIDER,
        who=report.provider,
        text=f"reported “{event}”{code}{reason}",
        note=" ".join(one for one in (came, other, repeats) if one),
        state=state,
        their_time=_other_clock(report),
        lines=raw_lines(report, reveals=reveals),
        lines_title="Show the report",
        tint=State.UNCONFIRMED if report.outcome is ReportOutcome.CONFLICT else None,
        advice=advice_for(report.code),
    )


def _came_of(report: StoredReport, row: Dispatch) -> str:
    """Return what came of a report that moved nothing; news on the way is expected to move none."""
    if report.outcome is ReportOutcome.CONFLICT:
        words = contradiction(report.event, row.state, row.channel)
        return f"It {words}. Kept; nothing was changed."
    if report.note:
        return report.note
    expected = report.outcome is ReportOutcome.IGNORED and report.event not in FINAL_EVENTS
    return "" if expected else CAME_OF_IT.get(report.outcome, "")


def _other_clock(report: StoredReport) -> datetime | None:
    if report.occurred_at is None or abs(report.received_at - report.occurred_at) < CLOCKS_APART:
        return None
    return report.occurred_at


def press_entry(activity: Activity) -> Entry:
    """Return the line of a press that moved nothing."""
    words = {
        "dispatch.acknowledge": f"acknowledged “{LABELS[State.UNCONFIRMED].lower()}”",
        "dispatch.check": "asked the provider",
        "dispatch.cancel": "asked to cancel it while a worker had it",
        "dispatch.reschedule": "gave it another time to go out",
        "attachment.download": "downloaded a file of it",
    }
    due_at = activity.details.get("due_at") if activity.details else None
    notes = (f"“{activity.reason}”" if activity.reason else "", f"due {due_at}" if due_at else "")
    return Entry(
        at=activity.at,
        lane=Lane.OPERATOR,
        who=actor_name(activity.actor),
        text=words.get(activity.action, activity.action),
        note=", ".join(one for one in notes if one),
    )
