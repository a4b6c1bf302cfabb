"""The rules of the state machine, walked over every combination of state, trigger and facts."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, cycle, permutations, product

import pytest

from dashboard.dispatch.decisions import Decision, Verdict, decide, is_claimable, may_hand_over
from dashboard.dispatch.facts import AttemptFacts, Evidence, Facts, rises
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
    if case.trigger is T.REPORT_FAILED and case.state is S.SUCCEEDED and case.facts.permanent:
        targets |= {S.UNCONFIRMED} if case.facts.may_have_arrived else set()
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
    """Check that the outcome of the open attempt always moves the row, by its own target at last."""
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


# Footnotes and bullets, one by one


def attempts(*evidences: Evidence, open_last: bool = False, **values) -> tuple[AttemptFacts, ...]:
    made = [AttemptFacts(number, one, **values) for number, one in enumerate(evidences, 1)]
    return (*made[:-1], replace(made[-1], is_open=True)) if open_last else tuple(made)


def target(state: State, trigger: Trigger, facts: Facts) -> State | None:
    return decide(state, trigger, facts).target


def test_footnote_1_an_sms_that_was_reported_failed_stays_errored() -> None:
    assert not rises(E.FAILED, E.DELIVERED, Channel.SMS)
    facts = Facts(channel=Channel.SMS, attempts=attempts(E.FAILED), about=1, news_rose=False)
    decision = decide(S.ERRORED, T.REPORT_DELIVERED, facts)
    assert (decision.verdict, decision.conflict) == (Verdict.IGNORED, True)


def test_footnote_1_an_email_that_failed_softly_is_believed_to_be_delivered() -> None:
    assert rises(E.FAILED, E.DELIVERED, Channel.EMAIL)
    facts = Facts(attempts=attempts(E.DELIVERED), about=1)
    assert target(S.ERRORED, T.REPORT_DELIVERED, facts) is S.SUCCEEDED


def test_footnote_1_a_delivery_without_any_attempt_is_a_conflict() -> None:
    for state in State:
        decision = decide(state, T.REPORT_DELIVERED, Facts(about=1))
        assert (decision.verdict, decision.conflict) == (Verdict.IGNORED, True)


def test_footnote_2_a_cancelled_one_that_was_delivered_is_a_conflict_and_stays_cancelled() -> None:
    decision = decide(
        S.CANCELLED, T.REPORT_DELIVERED, Facts(attempts=attempts(E.DELIVERED), about=1)
    )
    assert (decision.verdict, decision.conflict) == (Verdict.IGNORED, True)


def test_footnote_3_a_permanent_bounce_wins_over_a_delivery_in_either_order() -> None:
    assert rises(E.DELIVERED, E.BOUNCED, Channel.EMAIL)
    assert not rises(E.BOUNCED, E.DELIVERED, Channel.EMAIL)
    facts = Facts(attempts=attempts(E.BOUNCED), about=1, permanent=True)
    assert target(S.SUCCEEDED, T.REPORT_FAILED, facts) is S.ERRORED


def test_a_bounce_after_a_delivery_leaves_open_what_another_attempt_did() -> None:
    facts = Facts(attempts=attempts(E.UNKNOWN, E.BOUNCED), about=2, permanent=True)
    assert target(S.SUCCEEDED, T.REPORT_FAILED, facts) is S.UNCONFIRMED


def test_footnote_3_a_soft_failure_does_not_undo_a_delivery() -> None:
    assert not rises(E.DELIVERED, E.FAILED, Channel.EMAIL)
    facts = Facts(attempts=attempts(E.DELIVERED), about=1, news_rose=False)
    decision = decide(S.SUCCEEDED, T.REPORT_FAILED, facts)
    assert (decision.verdict, decision.conflict) == (Verdict.IGNORED, True)


def test_footnote_3_a_failure_after_a_delivered_sms_is_a_conflict() -> None:
    assert not rises(E.DELIVERED, E.BOUNCED, Channel.SMS)
    facts = Facts(
        channel=Channel.SMS,
        attempts=attempts(E.DELIVERED),
        about=1,
        news_rose=False,
        permanent=True,
    )
    assert decide(S.SUCCEEDED, T.REPORT_FAILED, facts).conflict


def test_an_accepted_earlier_attempt_wins_over_the_failure_of_a_later_one() -> None:
    facts = Facts(attempts=attempts(E.ACCEPTED, E.ABSENT), about=2)
    for trigger in (T.DEFER, T.FAIL, T.WITHDRAW):
        assert target(S.SENDING, trigger, facts) is S.AWAITING


def test_an_acceptance_waits_while_another_attempt_is_open() -> None:
    facts = Facts(attempts=attempts(E.IN_FLIGHT, E.NONE, open_last=True), about=1)
    assert not decide(S.SENDING, T.REPORT_IN_FLIGHT, facts).target
    assert not decide(S.SENDING, T.ACCEPT, facts).target


def test_a_delivery_does_not_wait_for_an_open_attempt() -> None:
    facts = Facts(attempts=attempts(E.DELIVERED, E.NONE, open_last=True), about=1)
    assert target(S.SENDING, T.REPORT_DELIVERED, facts) is S.SUCCEEDED


def test_a_lost_claim_settles_on_what_an_earlier_attempt_achieved() -> None:
    facts = Facts(attempts=attempts(E.ACCEPTED, E.NONE, open_last=True))
    assert target(S.SENDING, T.STALL, facts) is S.AWAITING
    assert target(S.SENDING, T.STALL, replace(facts, cancel_noted=True)) is S.AWAITING


def test_awaiting_sent_and_unconfirmed_stay_while_another_attempt_may_have_arrived() -> None:
    for state in (S.AWAITING, S.SENT, S.UNCONFIRMED):
        may = Facts(attempts=attempts(E.UNKNOWN, E.FAILED), about=2)
        may_not = Facts(attempts=attempts(E.ABSENT, E.FAILED), about=2)
        assert decide(state, T.REPORT_FAILED, may).verdict is Verdict.IGNORED
        assert target(state, T.REPORT_FAILED, may_not) is S.ERRORED


def test_a_late_defer_makes_an_unconfirmed_one_go_out_when_nothing_may_have_arrived() -> None:
    facts = Facts(attempts=attempts(E.ABSENT), about=1)
    assert target(S.UNCONFIRMED, T.DEFER, facts) is S.DELAYED
    still = Facts(attempts=attempts(E.UNKNOWN, E.ABSENT), about=2)
    assert decide(S.UNCONFIRMED, T.DEFER, still).verdict is Verdict.IGNORED


def test_news_from_before_a_retry_moves_only_if_it_proves_arrival() -> None:
    before = Facts(attempts=attempts(E.IN_FLIGHT, before_retry=True), about=1)
    for trigger in (T.REPORT_IN_FLIGHT, T.REPORT_FAILED, T.REPORT_CANCELLED, T.ACCEPT, T.DEFER):
        for state in (S.QUEUED, S.DELAYED, S.STALLED, S.UNCONFIRMED, S.ERRORED):
            assert not decide(state, trigger, before).target, (state, trigger)
    delivered = Facts(attempts=attempts(E.DELIVERED, before_retry=True), about=1)
    assert target(S.QUEUED, T.REPORT_DELIVERED, delivered) is S.SUCCEEDED


def test_a_late_defer_from_before_a_retry_does_not_bring_back_a_timed_out_one() -> None:
    first = AttemptFacts(1, E.ABSENT, before_retry=True)
    facts = Facts(attempts=(first, AttemptFacts(2, E.ACCEPTED)), about=1)
    assert decide(S.UNCONFIRMED, T.DEFER, facts).verdict is Verdict.IGNORED


def test_a_noted_cancel_turns_stall_defer_and_doubt_into_cancelled() -> None:
    for trigger in (T.STALL, T.DEFER, T.DOUBT):
        facts = Facts(attempts=attempts(E.ABSENT), about=1, cancel_noted=True)
        assert target(S.SENDING, trigger, facts) is S.CANCELLED
        accepted = Facts(attempts=attempts(E.ACCEPTED, E.ABSENT), about=2, cancel_noted=True)
        assert target(S.SENDING, trigger, accepted) is S.AWAITING


def test_a_cancel_is_noted_while_a_worker_has_it() -> None:
    decision = decide(S.SENDING, T.CANCEL, Facts(attempts=attempts(E.NONE, open_last=True)))
    assert (decision.verdict, decision.target) == (Verdict.NOTED, None)


def test_a_doubt_without_tries_left_is_a_loss() -> None:
    facts = Facts(attempts=attempts(E.UNKNOWN), about=1, tries_left=False)
    assert target(S.SENDING, T.DOUBT, facts) is target(S.SENDING, T.LOSE, facts) is S.UNCONFIRMED


def test_a_doubt_that_can_be_looked_up_waits_for_the_look_up() -> None:
    facts = Facts(attempts=attempts(E.UNKNOWN), about=1, step=NextStep.LOOK_UP)
    assert decide(S.SENDING, T.DOUBT, facts).next_step is NextStep.LOOK_UP


def test_a_handed_over_attempt_is_never_stalled() -> None:
    facts = Facts(attempts=attempts(E.HANDED_OVER, open_last=True))
    assert decide(S.SENDING, T.STALL, facts).verdict is Verdict.IGNORED


def test_an_errored_one_that_was_held_by_its_route_can_be_queued_again() -> None:
    held = Facts(hold=Hold.ROUTE)
    assert target(S.ERRORED, T.RETRY, held) is S.QUEUED
    assert decide(S.DELAYED, T.RETRY, held).verdict is Verdict.REFUSED


def test_a_late_failure_of_the_first_attempt_does_not_touch_the_second() -> None:
    waiting = Facts(attempts=attempts(E.FAILED, E.UNKNOWN), about=1)
    for state in (S.DELAYED, S.STALLED, S.QUEUED):
        assert not decide(state, T.REPORT_FAILED, waiting).target
    sending = Facts(attempts=attempts(E.FAILED, E.NONE, open_last=True), about=1)
    assert not decide(S.SENDING, T.REPORT_FAILED, sending).target


# Order


STORY = {
    T.REPORT_IN_FLIGHT: E.IN_FLIGHT,
    T.REPORT_DELIVERED: E.DELIVERED,
    T.REPORT_FAILED: E.FAILED,
}
BOUNCE = (T.REPORT_FAILED, E.BOUNCED)


def end_of(
    state: State, known: tuple[Evidence, ...], events: tuple, channel: Channel
) -> tuple[State, tuple[Evidence, ...]]:
    """Return where a row ends, and what is known about its attempts, after events in an order."""
    evidences = list(known)
    for number, trigger, news in events:
        rose = rises(evidences[number - 1], news, channel)
        if rose:
            evidences[number - 1] = news
        facts = Facts(
            channel=channel,
            attempts=attempts(*evidences),
            about=number,
            news_rose=rose,
            permanent=news is E.BOUNCED,
        )
        state = decide(state, trigger, facts).target or state
    return state, tuple(evidences)


@pytest.mark.parametrize(
    ("state", "known"),
    [
        (S.AWAITING, (E.ACCEPTED,)),
        (S.AWAITING, (E.UNKNOWN, E.ACCEPTED)),
        (S.UNCONFIRMED, (E.ACCEPTED,)),
        (S.UNCONFIRMED, (E.UNKNOWN,)),
        (S.UNCONFIRMED, (E.UNKNOWN, E.UNKNOWN)),
        (S.DELAYED, (E.UNKNOWN,)),
    ],
)
def test_each_permutation_of_reports_about_an_email_ends_in_the_same_state(state, known) -> None:
    """Where one of two doubtful attempts failed, `awaiting` is the same once its window is over."""
    events = [
        (number, trigger, news)
        for number in range(1, len(known) + 1)
        for trigger, news in [*STORY.items(), BOUNCE]
    ]
    for size in (2, 3, 4):
        for chosen in combinations(events, size):
            ends = {
                (decide(end, T.TIME_OUT, Facts()).target or end, evidences)
                for end, evidences in (
                    end_of(state, known, order, Channel.EMAIL) for order in permutations(chosen)
                )
            }
            assert len(ends) == 1, (chosen, ends)
