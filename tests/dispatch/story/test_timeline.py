"""The one history of a dispatch: merged, with gaps, folded."""

import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.access.models import Activity
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Attempt, Dispatch, Transition
from dashboard.dispatch.reports.models import ReportOutcome, StoredReport
from dashboard.dispatch.states import Channel, State
from dashboard.dispatch.story.timeline import timeline
from dashboard.dispatch.story.timeline_entries import Entry, Lane
from dashboard.providers.base import OutcomeKind

LATER = "451 Try again later"
START = datetime(2026, 12, 1, 11, 2, 10, tzinfo=UTC)


@dataclass
class Story:
    """A dispatch and what happened to it; `at` is in seconds after the request."""

    row: Dispatch
    now: datetime
    transitions: list[Transition] = field(default_factory=list)
    attempts: list[Attempt] = field(default_factory=list)
    reports: list[StoredReport] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    reveals: bool = True

    def move(self, at: float, trigger: str, to: State, **values: Any) -> None:
        defaults = {"state_from": "", "actor": "worker:w-1", "note": "", "repeats": 0}
        self.transitions.append(
            Transition(
                trigger=trigger,
                state_to=to.value,
                at=START + timedelta(seconds=at),
                **{**defaults, **values},
            )
        )

    def attempt(
        self, at: float, detail: str = "451 Try again later", to: State = State.DELAYED
    ) -> int:
        number = len(self.attempts) + 1
        moment = START + timedelta(seconds=at)
        self.attempts.append(
            Attempt(
                number=number,
                worker="w-1",
                claimed_at=moment,
                handed_over_at=moment,
                finished_at=moment + timedelta(seconds=0.6),
                outcome=OutcomeKind.TRANSIENT,
                evidence=int(Evidence.ABSENT),
                route="smtp",
                detail=detail,
                provider_message_id="",
            )
        )
        self.move(at, "claim", State.SENDING, attempt=number)
        trigger = "defer" if to is State.DELAYED else "fail"
        self.move(at + 0.6, trigger, to, attempt=number, note=detail)
        return number

    def report(self, at: float, event: str, outcome: ReportOutcome, **values: Any) -> None:
        defaults: dict[str, Any] = {
            "provider": "twilio",
            "occurred_at": None,
            "recipient": "",
            "reason": "",
            "code": "",
            "raw": {},
            "note": "",
            "repeats": 0,
        }
        self.reports.append(
            StoredReport(
                event=event,
                outcome=outcome,
                received_at=START + timedelta(seconds=at),
                **{**defaults, **values},
            )
        )


def story(now: float = 1) -> Story:
    row = Dispatch(
        id=uuid.uuid4(),
        channel=Channel.EMAIL,
        kind="message",
        state=State.QUEUED,
        recipient="ada@example.com",
        recipient_normalised="ada@example.com",
        target_type="invitation",
        target_id="482",
        file_count=2,
        provider="smtp",
    )
    told = Story(row, START + timedelta(seconds=now))
    told.move(0, "request", State.QUEUED, actor="token:programme-site/invitations")
    return told


def words(entries: tuple[Entry, ...]) -> list[str]:
    return [one.words for one in entries]


def test_the_first_line_names_who_asked_and_what_for() -> None:
    first = timeline(story())[0]
    assert first.words == "Requested by programme-site, token “invitations” for invitation 482"
    assert first.note == "message, 2\u00a0files"
    assert first.lane is Lane.US
    assert first.state is None


def test_an_attempt_and_its_answer_are_two_lines_in_two_lanes() -> None:
    told = story()
    told.attempt(1)
    _, taken, answer = timeline(told)
    assert taken.words == "Attempt 1 taken by w-1 and handed over to smtp"
    assert (answer.lane, answer.words) == (Lane.PROVIDER, "smtp “451 Try again later”")
    assert answer.state is State.DELAYED
    assert answer.note == ""
    told.attempts[0].finished_at = START + timedelta(seconds=9.2)
    assert timeline(told)[2].note == "answered in 8.2 s"


def test_a_state_is_named_only_where_it_changed() -> None:
    told = story()
    told.attempt(1)
    told.attempt(20, "421 Busy")
    told.attempt(40, "550 No", to=State.ERRORED)
    assert [one.state for one in timeline(told) if one.state] == [State.DELAYED, State.ERRORED]
    assert [one.tint for one in timeline(told) if one.tint] == [State.DELAYED]


def test_what_ended_before_the_hand_over_is_not_said_by_the_provider() -> None:
    told = story()
    told.attempt(1, "The worker was stopped before the call.")
    told.attempts[0].handed_over_at = None
    _, taken, answer = timeline(told)
    assert taken.words.endswith("not handed over")
    assert answer.lane is Lane.US


def test_equal_attempts_are_folded_between_the_first_and_the_last() -> None:
    told = story()
    for number in range(12):
        told.attempt(1 + number * 30)
    entries = timeline(told)
    folded = [one for one in entries if one.folded]
    assert len(folded) == 1
    assert folded[0].words == "Attempts 2 to 11 ended the same way"
    assert [pair[0].attempt for pair in folded[0].folded] == list(range(2, 12))
    assert [one.who for one in entries if one.who.startswith("Attempt ")] == [
        "Attempt 1",
        "Attempt 12",
    ]


def test_attempts_that_ended_differently_are_not_folded() -> None:
    told = story()
    for number in range(6):
        told.attempt(1 + number * 30, "451 A" if number % 2 else "451 B")
    assert not [one for one in timeline(told) if one.folded]


def test_a_press_between_equal_attempts_parts_them() -> None:
    told = story()
    for number in range(4):
        told.attempt(1 + number * 10)
    told.move(20.9, "retry", State.QUEUED, actor="user:bo@example.com")
    assert not [one for one in timeline(told) if one.folded]


def test_gaps_are_named_by_what_it_waited_for() -> None:
    told = story(now=400)
    told.attempt(130)
    lines = timeline(told)
    gaps = [one.text for one in lines if one.lane is Lane.GAP]
    assert gaps == [
        "2\u00a0min 10\u00a0s without a worker taking it",
        "4\u00a0min 29\u00a0s waiting for the next try",
    ]


def test_nothing_is_waited_for_behind_what_is_done() -> None:
    told = story(now=9000)
    told.move(1, "claim", State.SENDING)
    told.move(2, "complete", State.SENT)
    assert timeline(told)[-1].lane is not Lane.GAP


def test_a_report_and_the_move_it_caused_are_one_line() -> None:
    told = story()
    told.report(5, "delivered", ReportOutcome.APPLIED, raw={"MessageStatus": "delivered"})
    told.move(5.1, "report_delivered", State.SUCCEEDED, actor="provider:twilio", attempt=1)
    lines = timeline(told)
    assert words(lines)[1:] == ["twilio reported “delivered”"]
    assert lines[1].state is State.SUCCEEDED
    assert '"MessageStatus": "delivered"' in "".join(lines[1].lines)


@pytest.mark.parametrize(
    ("event", "state", "expected"),
    [
        ("delivered", State.CANCELLED, "was delivered although it was cancelled"),
        ("delivered", State.ERRORED, "although the same attempt was reported failed"),
        ("failed", State.SUCCEEDED, "was reported failed although it was delivered"),
        ("opened", State.QUEUED, "was reported “opened”, which contradicts"),
    ],
)
def test_a_contradiction_is_told_in_words(event: str, state: State, expected: str) -> None:
    told = story()
    told.row.state = state
    told.report(5, event, ReportOutcome.CONFLICT, note="It contradicts what is known.")
    line = timeline(told)[1]
    assert expected in line.note
    assert line.tint is State.UNCONFIRMED


def test_a_code_that_is_known_comes_with_advice_and_its_link() -> None:
    told = story()
    told.report(5, "failed", ReportOutcome.APPLIED, code="30003")
    told.report(6, "failed", ReportOutcome.APPLIED, code="30999")
    known, unknown = timeline(told)[1:]
    assert known.advice is not None
    assert known.advice.link.endswith("/30003")
    assert unknown.advice is None


def test_the_raw_event_keeps_secrets_and_addresses_to_itself() -> None:
    raw = {
        "Recipient": "ada@example.com",
        "signature": {"token": "s3cret"},
        "deep": [{"text": "to +12025550143", "client-info": {"ip": "10.0.0.1"}}],
    }
    told = story()
    told.report(5, "delivered", ReportOutcome.IGNORED, raw=raw, reason="550 ada@example.com gone")
    shown = "\n".join(timeline(told)[1].lines)
    assert "ada@example.com" in shown
    assert "s3cret" not in shown
    assert "10.0.0.1" not in shown
    told.reveals = False
    line = timeline(told)[1]
    assert "ada@" not in "\n".join(line.lines) + line.text
    assert "2025550143" not in "\n".join(line.lines)


def test_a_report_that_changed_nothing_says_so() -> None:
    told = story()
    told.row.state = State.CANCELLED
    told.report(5, "delivered", ReportOutcome.CONFLICT, code="30003", reason="Unreachable")
    line = timeline(told)[1]
    assert line.words == "twilio reported “delivered” (code 30003): Unreachable"
    assert line.note.endswith("Kept; nothing was changed.")
    assert line.state is None


def test_a_final_report_that_moved_nothing_says_so_and_one_on_the_way_need_not() -> None:
    told = story()
    told.report(5, "in_flight", ReportOutcome.IGNORED)
    told.report(6, "delivered", ReportOutcome.IGNORED)
    assert [one.note for one in timeline(told)[1:]] == ["", "It changed nothing."]


def test_the_clock_of_the_provider_is_shown_where_it_differs() -> None:
    told = story()
    told.report(5, "delivered", ReportOutcome.IGNORED, occurred_at=START)
    told.report(6, "delivered", ReportOutcome.IGNORED, occurred_at=START + timedelta(seconds=5))
    assert [one.their_time for one in timeline(told)[1:]] == [START, None]


def test_an_outcome_that_came_too_late_is_kept_and_said() -> None:
    told = story()
    told.attempt(1)
    told.transitions = [one for one in told.transitions if one.trigger != "defer"]
    told.attempts[0].evidence = int(Evidence.UNKNOWN)
    late = timeline(told)[-1]
    assert late.words == "Attempt 1 ended late with “451 Try again later”"
    assert late.note == "Recorded; it moved nothing. It may have arrived."


def test_presses_are_in_the_lane_of_the_operators() -> None:
    told = story()
    told.move(3, "cancel", State.CANCELLED, actor="user:bo@example.com", note="wrong template")
    told.activities.append(
        Activity(
            at=START + timedelta(seconds=4),
            actor="user:ada@example.com",
            action="dispatch.acknowledge",
            reason="seen",
            outcome="done",
        )
    )
    told.activities.append(
        Activity(
            at=START + timedelta(seconds=3),
            actor="user:bo@example.com",
            action="dispatch.cancel",
            reason="",
            outcome="done",
        )
    )
    _, cancelled, acknowledged = timeline(told)
    assert (cancelled.lane, cancelled.words) == (Lane.OPERATOR, "bo@example.com cancelled it")
    assert cancelled.note == "“wrong template”"
    assert acknowledged.words == "ada@example.com acknowledged “outcome unknown”"


def test_the_reconciler_is_not_an_operator() -> None:
    told = story()
    told.move(3, "retry", State.QUEUED, actor="reconciler")
    assert timeline(told)[1].lane is Lane.US


def test_hostile_text_is_not_read_as_a_place_to_fill_in() -> None:
    told = story()
    told.attempt(1, "550 {who} {0} <script>", to=State.ERRORED)
    assert timeline(told)[-1].text == "“550 {who} {0} <script>”"
