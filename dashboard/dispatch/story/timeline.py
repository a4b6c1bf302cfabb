"""timeline(): one history of a dispatch, merged from moves, attempts, reports and presses. Pure.

Oldest first. Gaps are named, equal attempts are folded into one line. What each line says: see
`timeline_words.py`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise

from dashboard.access.models import Activity
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.states import State, Trigger
from dashboard.dispatch.story.timeline_entries import Entry, Kind, Lane
from dashboard.dispatch.story.timeline_words import (
    attempt_entry,
    late_entry,
    move_entry,
    press_entry,
    report_entry,
)
from dashboard.dispatch.story.wording import precise_duration

GAP = timedelta(seconds=60)
FOLDED_FROM = 2
REPORT_MOVES = frozenset(
    {
        Trigger.REPORT_IN_FLIGHT.value,
        Trigger.REPORT_DELIVERED.value,
        Trigger.REPORT_FAILED.value,
        Trigger.REPORT_CANCELLED.value,
    }
)
# Presses that leave no move behind; the others are told by the move they made.
SILENT_PRESSES = frozenset(
    {"dispatch.acknowledge", "dispatch.check", "dispatch.reschedule", "attachment.download"}
)


@dataclass(frozen=True, slots=True)
class Events:
    """What happened to one dispatch, each list oldest first.

    Attributes:
        reveals: whether addresses and numbers in what providers say may be read.
    """

    row: Dispatch
    now: datetime
    transitions: Sequence[Transition]
    attempts: Sequence[Attempt]
    reports: Sequence[StoredReport]
    activities: Sequence[Activity]
    reveals: bool = True


def timeline(events: Events) -> tuple[Entry, ...]:
    """Return the history of a dispatch, oldest first, with gaps and folded repeats."""
    by_number = {one.number: one for one in events.attempts}
    moves, reports = _joined(events)
    told = [
        *(_move(events.row, one, by_number) for one in moves),
        *reports,
        *(late_entry(one) for one in _unheard(events)),
        *(press_entry(one) for one in events.activities if _is_told(one)),
    ]
    ordered = sorted(told, key=lambda one: (one.at, one.rank))
    return tuple(_with_gaps(_changes_only(_folded(ordered)), events))


def _move(row: Dispatch, move: Transition, by_number: dict[int, Attempt]) -> Entry:
    attempt = by_number.get(move.attempt or 0)
    if move.trigger == Trigger.CLAIM and attempt is not None:
        return attempt_entry(move, attempt)
    return move_entry(row, move, attempt)


def _is_told(activity: Activity) -> bool:
    return activity.action in SILENT_PRESSES or activity.outcome == "noted"


def _joined(events: Events) -> tuple[list[Transition], list[Entry]]:
    """Return the moves that stand alone, and all reports, each with the move that it caused."""
    caused: dict[int, Transition] = {}
    alone: list[Transition] = []
    unused = [n for n, one in enumerate(events.reports) if one.outcome is ReportOutcome.APPLIED]
    for move in events.transitions:
        matching = [n for n in unused if events.reports[n].received_at <= move.at]
        if move.trigger not in REPORT_MOVES or not matching:
            alone.append(move)
            continue
        caused[matching[-1]] = move
        unused.remove(matching[-1])
    reports = [
        report_entry(one, _state(caused.get(n)), events.row, reveals=events.reveals)
        for n, one in enumerate(events.reports)
    ]
    return alone, reports


def _state(move: Transition | None) -> State | None:
    return State(move.state_to) if move else None


def _unheard(events: Events) -> Iterable[Attempt]:
    """Return attempts whose outcome moved nothing: the row was elsewhere when it came."""
    heard = {one.attempt for one in events.transitions if one.trigger != Trigger.CLAIM}
    return [one for one in events.attempts if one.finished_at and one.number not in heard]


# ---- folding ----------------------------------------------------------------------------------


def _folded(entries: list[Entry]) -> list[Entry]:
    """Return the entries with runs of attempts that ended alike as one line each.

    A run keeps its first and its last attempt as they are: those are the ones that people read.
    """
    pairs = _pairs(entries)
    result: list[Entry] = []
    position = 0
    while position < len(entries):
        run = _run_at(entries, pairs, position)
        middle = run[1:-1]
        if len(middle) < FOLDED_FROM:
            result.append(entries[position])
            position += 1
            continue
        result.extend(entries[run[0] : run[0] + 2])
        result.append(_fold(entries, middle))
        result.extend(entries[run[-1] : run[-1] + 2])
        position = run[-1] + 2
    return result


def _pairs(entries: list[Entry]) -> set[int]:
    """Return where an attempt is followed at once by its own outcome."""
    return {
        n
        for n, (one, following) in enumerate(pairwise(entries))
        if one.kind is Kind.ATTEMPT
        and following.kind is Kind.OUTCOME
        and one.attempt == following.attempt
    }


def _run_at(entries: list[Entry], pairs: set[int], start: int) -> list[int]:
    """Return the places of attempts that follow each other from here and ended alike."""
    run: list[int] = []
    place = start
    while place in pairs and (not run or _alike(entries[run[0] + 1], entries[place + 1])):
        run.append(place)
        place += 2
    return run


def _alike(one: Entry, other: Entry) -> bool:
    return (one.who, one.text, one.state) == (other.who, other.text, other.state)


def _fold(entries: list[Entry], places: list[int]) -> Entry:
    outcomes = [entries[place + 1] for place in places]
    first, last = outcomes[0], outcomes[-1]
    return replace(
        first,
        who=f"Attempts {first.attempt} to {last.attempt}",
        text="ended the same way",
        until=last.at,
        note="",
        state=None,
        tint=first.state,
        kind=Kind.FOLD,
        lines_title="",
        folded=tuple((entries[place], entries[place + 1]) for place in places),
    )


def _changes_only(entries: Iterable[Entry]) -> Iterable[Entry]:
    """Name a state only where it is another than the last one named; a claim names none."""
    named: State | None = None
    for entry in entries:
        if entry.state is not None and entry.state is named:
            yield replace(entry, state=None, tint=entry.state)
            continue
        named = entry.state or named
        yield entry


# ---- gaps -------------------------------------------------------------------------------------


def _with_gaps(entries: Iterable[Entry], events: Events) -> Iterable[Entry]:
    before: Entry | None = None
    state = State.QUEUED
    for entry in entries:
        if before is not None and entry.at - (before.until or before.at) >= GAP:
            yield _gap(before, entry, state)
        state = entry.state or entry.tint or state
        before = entry
        yield entry
    if before is not None and not state.is_done and events.now - before.at >= GAP:
        yield _gap(before, Entry(at=events.now, lane=Lane.GAP), state, still=True)


def _gap(before: Entry, after: Entry, state: State, *, still: bool = False) -> Entry:
    began = before.until or before.at
    length = precise_duration(after.at - began)
    reasons = {
        State.QUEUED: "without a worker taking it",
        State.STALLED: "without a worker taking it",
        State.SENDING: "in the worker's hands",
        State.AWAITING: "without a report",
        State.DELAYED: "until the next try",
        State.ERRORED: "until somebody looked",
    }
    reason = reasons.get(state, "later")
    if still:
        reason = {State.DELAYED: "waiting for the next try", State.ERRORED: "since then"}.get(
            state, f"{reason}, so far"
        )
    return Entry(at=began, lane=Lane.GAP, text=f"{length} {reason}", kind=Kind.GAP)
