"""The footnotes and bullets of the rules, one sentence each, and that the order does not matter."""

from dataclasses import replace
from itertools import combinations, permutations

import pytest

from dashboard.dispatch.decisions import Verdict, decide
from dashboard.dispatch.facts import AttemptFacts, Evidence, Facts, rises
from dashboard.dispatch.states import Channel, Hold, NextStep, State, Trigger

S, T, E = State, Trigger, Evidence


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


def test_nothing_is_errored_while_another_attempt_may_have_arrived() -> None:
    may = Facts(attempts=attempts(E.UNKNOWN, E.FAILED), about=2)
    may_not = Facts(attempts=attempts(E.ABSENT, E.FAILED), about=2)
    assert decide(S.UNCONFIRMED, T.REPORT_FAILED, may).verdict is Verdict.IGNORED
    for state in (S.AWAITING, S.SENT):
        assert target(state, T.REPORT_FAILED, may) is S.UNCONFIRMED
    for state in (S.AWAITING, S.SENT, S.UNCONFIRMED):
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
    events = [
        (number, trigger, news)
        for number in range(1, len(known) + 1)
        for trigger, news in [*STORY.items(), BOUNCE]
    ]
    for size in (2, 3, 4):
        for chosen in combinations(events, size):
            ends = {end_of(state, known, order, Channel.EMAIL) for order in permutations(chosen)}
            assert len(ends) == 1, (chosen, ends)
