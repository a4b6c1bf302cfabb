"""The story of a dispatch as plain text, for a terminal or a ticket. Times are UTC."""

from collections.abc import Iterator
from datetime import UTC, datetime

from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.states import LABELS, NextStep, State
from dashboard.dispatch.story.story import Story, events


def story_lines(story: Story) -> Iterator[str]:
    """Yield a heading, the facts that are set, and one line for each thing that happened."""
    row = story.dispatch
    yield f"{row.channel.value} {row.id}: {LABELS[row.state]}"
    for name, value in _facts(story):
        if value:
            yield f"  {name + ':':12} {_one_line(value)}"
    yield ""
    for at, what in events(story):
        yield f"  {_clock(at)}  {_one_line(_sentence(what))}"


def _facts(story: Story) -> Iterator[tuple[str, str]]:
    row = story.dispatch
    yield "to", row.recipient
    yield "from", row.sender
    yield "subject", row.subject
    yield "about", f"{row.target_type} {row.target_id}".strip()
    yield "labels", ", ".join(f"{name}={value}" for name, value in sorted(row.labels.items()))
    yield "asked by", f"{row.requested_by}, {_clock(row.requested_at)}"
    yield "queue", row.queue
    yield "due", _due(row)
    yield "provider", f"{row.provider} {row.provider_message_id}".strip()
    yield "error", row.error
    yield "note", "It may have arrived." if row.maybe_sent else ""
    for file in story.files:
        yield "file", f"{file.attachment.filename} ({file.attachment.size} octets)"
    yield "copies", ", ".join(map(str, story.copies))
    yield "copy of", str(row.copy_of_id or "")
    yield "replaces", str(row.replaces_id or "")
    yield "replaced by", str(row.replaced_by_id or "")


def _due(row: Dispatch) -> str:
    if row.state not in (State.QUEUED, State.DELAYED, State.STALLED):
        return ""
    look_up = ", to be looked up" if row.next_step is NextStep.LOOK_UP else ""
    return f"{_clock(row.due_at)}{look_up}"


def _sentence(what: Transition | Attempt | StoredReport) -> str:
    if isinstance(what, Transition):
        return _moved(what)
    if isinstance(what, Attempt):
        return _tried(what)
    text = f"report from {what.provider}: {what.event} ({what.outcome.value})"
    return f"{text}: {what.reason}" if what.reason else text


def _moved(line: Transition) -> str:
    from_ = f"{line.state_from} → " if line.state_from else ""
    note = f": {line.note}" if line.note else ""
    again = f", {line.repeats} times more" if line.repeats else ""
    return f"{from_}{line.state_to} ({line.trigger} by {line.actor or 'unknown'}{again}){note}"


def _tried(attempt: Attempt) -> str:
    if attempt.lost:
        outcome = "lost with its worker"
    else:
        outcome = attempt.outcome.value if attempt.outcome else "not ended"
    handed_over = "" if attempt.handed_over_at else ", not handed over"
    parts = (attempt.provider_message_id, attempt.code, attempt.detail)
    detail = " ".join(part for part in parts if part)
    text = f"attempt {attempt.number} on {attempt.worker} by {attempt.route or 'no route'}"
    return f"{text}: {outcome}{handed_over}{f': {detail}' if detail else ''}"


def _one_line(text: str) -> str:
    """Return text that a provider or a caller wrote without what would steer a terminal."""
    return "".join(one if one.isprintable() else " " for one in text)


def _clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}"
