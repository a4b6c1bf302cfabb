"""The rules of the state machine, walked over every combination of state, trigger and facts."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, product

import pytest

from dashboard.dispatch.decisions import Decision, Verdict, decide, is_claimable, may_hand_over
from dashboard.dispatch.facts import AttemptFacts, Evidence, Facts
from dashboard.dispatch.states import MOVES, Channel, Hold, NextStep, State, Trigger

S, T, E = State, Trigger, Evidence
BOOLEANS = (False, True)

# The table of the design, written down once more: by what, from where, to where.
TABLE: dict[Trigger, tuple[str, State]] = {
    T.CLAIM: ("queued delayed stalled", S.SENDING),
    T.ACCEPT: ("sending", S.AWAITING),
    T.COMPLETE: ("sending", S.SENT),
    T.DEFER: ("sending", S.DELAYED),
    T.FAIL: ("sending", S.ERRORED),
    T.DOUBT: ("sending", S.DELAYED),
    T.LOSE: ("sending delayed", S.UNCONFIRMED),
    T.WITHDRAW: ("sending", S.CANCELLED),
    T.FAIL_PUBLISH: ("queued", S.ERRORED),
    T.REPORT_IN_FLIGHT: ("queued sending delayed stalled unconfirmed", S.AWAITING),
    T.REPORT_DELIVERED: (
        "queued sending awaiting delayed stalled unconfirmed sent errored",
        S.SUCCEEDED,
    ),
    T.REPORT_FAILED: (
        "queued sending awaiting delayed stalled unconfirmed sent succeeded",
        S.ERRORED,
    ),
    T.REPORT_CANCELLED: ("sending awaiting delayed unconfirmed", S.CANCELLED),
    T.TIME_OUT: ("awaiting", S.UNCONFIRMED),
    T.STALL: ("queued delayed sending stalled", S.STALLED),
    T.GIVE_UP: ("stalled", S.ERRORED),
    T.EXPIRE: ("queued delayed stalled", S.ERRORED),
    T.RETRY: ("errored stalled delayed", S.QUEUED),
    T.REPLACE: ("queued delayed stalled", S.CANCELLED),
    T.CANCEL: ("queued delayed stalled errored", S.CANCELLED),
}
SOURCES = {
    (State(source), trigger)
    for trigger, (sources, _) in TABLE.items()
    for source in sources.split()
}
WORKERS = {T.ACCEPT, T.COMPLETE, T.DEFER, T.FAIL}
OUTCOMES = WORKERS | {T.DOUBT, T.LOSE, T.WITHDRAW}
REPORTS = {T.REPORT_IN_FLIGHT, T.REPORT_DELIVERED, T.REPORT_FAILED, T.REPORT_CANCELLED}
PERSONS = {T.RETRY, T.REPLACE, T.CANCEL}
NEWS = {
    T.ACCEPT: {E.ACCEPTED},
    T.COMPLETE: {E.ACCEPTED},
    T.DEFER: {E.ABSENT},
    T.FAIL: {E.ABSENT},
    T.DOUBT: {E.UNKNOWN},
    T.LOSE: {E.UNKNOWN},
    T.REPORT_IN_FLIGHT: {E.IN_FLIGHT},
    T.REPORT_DELIVERED: {E.DELIVERED},
    T.REPORT_FAILED: {E.FAILED, E.BOUNCED},
}


def test_the_table_of_moves_is_the_one_of_the_design() -> None:
    written = {
        (State(source), trigger): target
        for trigger, (sources, target) in TABLE.items()
        for source in sources.split()
    }
    assert dict(MOVES) == written
    assert set(TABLE) == set(Trigger)


# The walk


@dataclass(frozen=True)
class Case:
    """One point of the space, with what the rules say about it."""

    state: State
    trigger: Trigger
    facts: Facts
    decision: Decision

    @property
    def moved(self) -> bool:
        return self.decision.verdict is Verdict.MOVED

    @property
    def is_in_table(self) -> bool:
        return (self.state, self.trigger) in SOURCES

    @property
    def delivered(self) -> bool:
        return any(one.evidence is E.DELIVERED for one in self.facts.attempts)

    @property
    def accepted(self) -> bool:
        return any(one.evidence in (E.ACCEPTED, E.IN_FLIGHT) for one in self.facts.attempts)

    @property
    def is_open(self) -> bool:
        return any(one.is_open for one in self.facts.attempts)

    @property
    def news_is_in(self) -> bool:
        subject = self.facts.subject
        return (
            self.facts.news_rose
            and subject is not None
            and not subject.is_open
            and subject.evidence in NEWS.get(self.trigger, set(E))
        )


def one_attempt(number: int, *, may_be_open: bool) -> list[AttemptFacts]:
    flags = product(E, BOOLEANS if may_be_open else (False,), BOOLEANS, BOOLEANS)
    return [
        AttemptFacts(number, evidence, is_open, before_retry, no_report)
        for evidence, is_open, before_retry, no_report in flags
        if evidence is E.ACCEPTED or not no_report
    ]


def attempts_and_subjects() -> list[tuple[tuple[AttemptFacts, ...], int]]:
    """Every history of at most two attempts, with each that the news may be about."""
    found: list[tuple[tuple[AttemptFacts, ...], int]] = [((), 0)]
    found += [((one,), 1) for one in one_attempt(1, may_be_open=True)]
    for first, second in product(
        one_attempt(1, may_be_open=False), one_attempt(2, may_be_open=True)
    ):
        if first.before_retry or not second.before_retry:
            found += [((first, second), 1), ((first, second), 2)]
    return found


# hold, due, next_step, step, replaced, cancel_noted, tries_left, permanent, channel, news_rose
OTHER_FACTS = list(product(Hold, BOOLEANS, NextStep, NextStep, *[BOOLEANS] * 4, Channel, BOOLEANS))
ATTEMPTS = attempts_and_subjects()


def make_facts(attempts: tuple[tuple[AttemptFacts, ...], int], other: tuple) -> Facts:
    hold, due, next_step, step, replaced, noted, tries, permanent, channel, rose = other
    return Facts(
        channel=channel,
        hold=hold,
        due=due,
        next_step=next_step,
        step=step,
        replaced=replaced,
        cancel_noted=noted,
        attempts=attempts[0],
        about=attempts[1],
        news_rose=rose,
        tries_left=tries,
        permanent=permanent,
    )


def walk(triggers: set[Trigger]) -> Iterator[Case]:
    """Meet every history with every state and trigger, and so every combination of the others.

    Their product is thousands of millions; each half is walked in full, with the other half mixed.
    """
    mixed = random.Random(7)
    others = mixed.sample(OTHER_FACTS, len(OTHER_FACTS))
    histories = mixed.sample(ATTEMPTS, len(ATTEMPTS))
    for state, trigger in product(State, sorted(triggers)):
        first = mixed.randrange(len(others))
        pairs = list(zip(ATTEMPTS, cycle(others[first:] + others[:first]), strict=False))
        pairs += zip(cycle(histories[first % 97 :]), OTHER_FACTS, strict=False)
        for attempts, other in pairs:
            facts = make_facts(attempts, other)
            yield Case(state, trigger, facts, decide(state, trigger, facts))


def allowed_targets(case: Case) -> set[State]:
    """Return where the design lets a case go, whatever decides between them."""
    targets = {TABLE[case.trigger][1]} if case.is_in_table else set()
    if case.trigger in OUTCOMES | REPORTS or (case.trigger is T.STALL and case.state is S.SENDING):
        if case.delivered:
            targets.add(S.SUCCEEDED)
        elif case.accepted:
            targets |= {S.AWAITING, S.SENT}
    if case.state is S.SENDING and case.facts.cancel_noted:
        targets |= {S.CANCELLED} if case.trigger in (T.STALL, T.DEFER, T.DOUBT) else set()
    if not case.facts.tries_left:
        targets |= {T.DEFER: {S.ERRORED}, T.DOUBT: {S.UNCONFIRMED}}.get(case.trigger, set())
    waits = case.state is S.UNCONFIRMED or case.facts.next_step is NextStep.LOOK_UP
    if case.trigger in WORKERS and waits and not case.facts.may_have_arrived:
        targets |= {S.DELAYED, S.ERRORED}
    bounced = case.state is S.SUCCEEDED and case.facts.permanent
    failed = case.trigger in (T.REPORT_FAILED, T.REPORT_CANCELLED)
    if failed and case.facts.may_have_arrived and (bounced or case.state in (S.AWAITING, S.SENT)):
        targets |= {S.UNCONFIRMED}
    return targets


def check_shape(case: Case) -> None:
    decision = case.decision
    assert isinstance(decision.verdict, Verdict), case
    assert (decision.target in State) if case.moved else (decision.target is None), case
    assert bool(decision.sentence) is (decision.verdict in (Verdict.REFUSED, Verdict.NOTED)), case
    if decision.verdict is Verdict.REFUSED:
        assert case.trigger in PERSONS, case
    if decision.verdict is Verdict.NOTED:
        assert (case.state, case.trigger) == (S.SENDING, T.CANCEL), case
    if decision.conflict:
        assert case.trigger in (T.REPORT_DELIVERED, T.REPORT_FAILED), case


def check_target(case: Case) -> None:
    if case.moved:
        assert case.decision.target in allowed_targets(case), case
        answers = case.trigger is T.DEFER and case.facts.next_step is NextStep.LOOK_UP
        stays = case.trigger is T.STALL or (answers and case.state is S.DELAYED)
        assert case.decision.target is not case.state or stays, case
    if case.decision.next_step is NextStep.LOOK_UP:
        assert (case.trigger, case.decision.target) == (T.DOUBT, S.DELAYED), case


def check_replaced(case: Case) -> None:
    if not case.facts.replaced:
        return
    if case.trigger in PERSONS:
        assert case.decision.verdict is Verdict.REFUSED, case
    if case.trigger in (T.CLAIM, T.STALL, T.GIVE_UP):
        assert case.decision.verdict is Verdict.IGNORED, case


def check_settled(case: Case) -> None:
    """Check that the row stands where all its attempts together put it."""
    target = case.decision.target
    open_elsewhere = case.is_open and case.state is not S.SENDING
    if not case.moved or open_elsewhere:
        return
    if case.delivered:
        assert target is S.SUCCEEDED, case
    elif case.accepted and not case.is_open:
        assert target in (S.AWAITING, S.SENT), case
        silent = [
            one.no_report
            for one in case.facts.attempts
            if one.evidence in (E.ACCEPTED, E.IN_FLIGHT)
        ]
        assert (target is S.SENT) is all(silent), case


def check_before_retry(case: Case) -> None:
    """Check that news from before a person's last retry moves only what it proves arrived."""
    subject = case.facts.subject
    late = case.trigger in REPORTS or (case.trigger in WORKERS and case.state is not S.SENDING)
    if late and subject is not None and subject.before_retry and case.news_is_in and case.moved:
        assert case.trigger is T.REPORT_DELIVERED, case


def check_done_rows(case: Case) -> None:
    if case.state is S.CANCELLED:
        assert not case.moved, case
    if case.state is S.SUCCEEDED and case.moved and case.news_is_in:
        assert case.trigger is T.REPORT_FAILED, case
        assert not case.delivered, case


def check_sending_ends(case: Case) -> None:
    """Check that the outcome of the open attempt always moves the row."""
    latest = case.facts.latest
    if case.state is not S.SENDING or case.trigger not in OUTCOMES or latest is None:
        return
    if case.facts.about != latest.number or latest.is_open:
        return
    assert case.moved, case
    if case.delivered or case.accepted:
        return
    own = TABLE[case.trigger][1]
    if case.trigger is T.DEFER and not case.facts.tries_left:
        own = S.ERRORED
    if case.trigger is T.DOUBT and not case.facts.tries_left:
        own = S.UNCONFIRMED
    if case.trigger in (T.DEFER, T.DOUBT) and case.facts.cancel_noted:
        own = S.CANCELLED
    assert case.decision.target is own, case


def check_doubt_and_withdraw(case: Case) -> None:
    if case.trigger in (T.DOUBT, T.WITHDRAW) and case.state is not S.SENDING:
        assert case.decision.verdict is Verdict.IGNORED, case
    if case.trigger is T.LOSE and case.state is not S.SENDING and case.moved:
        assert case.state is S.DELAYED, case
        assert case.facts.next_step is NextStep.LOOK_UP, case


def check_failed_elsewhere(case: Case) -> None:
    """Check that a reported failure never hides another attempt that may have arrived."""
    if case.trigger is not T.REPORT_FAILED or not case.moved or not case.news_is_in:
        return
    if case.decision.target is not S.ERRORED:
        return
    assert not case.accepted or case.is_open, case
    if case.state in (S.AWAITING, S.SENT, S.UNCONFIRMED, S.SUCCEEDED):
        assert not case.facts.may_have_arrived, case
    else:
        assert case.facts.about == case.facts.attempts[-1].number, case


def waits_to_go_out(facts: Facts) -> bool:
    return facts.due and facts.next_step is NextStep.SEND and facts.hold is Hold.NONE


# Under which facts the triggers of claims, publisher, reconciler and persons move, and else do not.
CONDITIONS = {
    T.CLAIM: lambda case: waits_to_go_out(case.facts) and not case.facts.replaced,
    T.FAIL_PUBLISH: lambda case: not case.facts.attempts,
    T.TIME_OUT: lambda _case: True,
    T.EXPIRE: lambda _case: True,
    T.GIVE_UP: lambda case: case.facts.hold is Hold.NONE and not case.facts.replaced,
    T.STALL: lambda case: (
        not case.facts.replaced
        and (not case.facts.handed_over if case.state is S.SENDING else waits_to_go_out(case.facts))
    ),
    T.RETRY: lambda case: (
        not case.facts.replaced
        and not (
            case.state is S.DELAYED
            and (case.facts.next_step is NextStep.LOOK_UP or case.facts.hold is Hold.ROUTE)
        )
    ),
    T.REPLACE: lambda case: not case.facts.replaced,
    T.CANCEL: lambda case: not case.facts.replaced,
}


def check_condition(case: Case) -> None:
    """Check exactly when a trigger that brings no news moves."""
    assert case.moved is (case.is_in_table and CONDITIONS[case.trigger](case)), case
    if case.trigger is T.REPLACE and not case.facts.replaced and not case.is_in_table:
        expected = Verdict.REFUSED if case.state is S.SENDING else Verdict.IGNORED
        assert case.decision.verdict is expected, case


EVERYWHERE = (check_shape, check_target, check_replaced, check_done_rows)


@pytest.mark.parametrize(
    ("triggers", "checks"),
    [
        (
            OUTCOMES,
            (check_settled, check_sending_ends, check_doubt_and_withdraw, check_before_retry),
        ),
        (REPORTS, (check_settled, check_failed_elsewhere, check_before_retry)),
        (set(Trigger) - OUTCOMES - REPORTS, (check_condition,)),
    ],
    ids=["outcomes", "reports", "upkeep and presses"],
)
def test_every_combination_has_an_answer_that_the_design_allows(triggers, checks) -> None:
    seen = 0
    for case in walk(triggers):
        seen += 1
        for check in EVERYWHERE + checks:
            check(case)
    assert seen == len(triggers) * len(State) * (len(ATTEMPTS) + len(OTHER_FACTS))


# Claims and hand-overs


def test_a_row_is_claimable_exactly_when_a_claim_moves_it() -> None:
    for case in walk({T.CLAIM}):
        assert is_claimable(case.state, case.facts) is case.moved, case


def test_a_hand_over_needs_the_current_open_attempt_and_nothing_known_to_have_arrived() -> None:
    for state, (attempts, _), noted in product(State, ATTEMPTS, BOOLEANS):
        facts = Facts(attempts=attempts, cancel_noted=noted)
        arrived = {E.ACCEPTED, E.IN_FLIGHT, E.DELIVERED} & {one.evidence for one in attempts}
        expected = (
            state is S.SENDING
            and bool(attempts)
            and attempts[-1].is_open
            and not noted
            and not arrived
        )
        assert may_hand_over(state, len(attempts), facts) is expected
        assert not may_hand_over(state, len(attempts) - 1, facts)
