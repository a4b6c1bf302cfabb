"""What is known about an attempt, and when news is more than that."""

from itertools import pairwise, permutations, product

import pytest

from dashboard.dispatch.facts import AttemptFacts, Evidence, Facts, rises
from dashboard.dispatch.states import Channel

E = Evidence
FINAL = (E.FAILED, E.DELIVERED, E.BOUNCED)


def test_the_same_or_less_is_no_news() -> None:
    for channel, known, news in product(Channel, E, E):
        if news <= known:
            assert not rises(known, news, channel)


def test_the_order_of_the_evidence_is_that_of_the_design() -> None:
    order = (E.NONE, E.HANDED_OVER, E.UNKNOWN, E.ACCEPTED, E.IN_FLIGHT, E.FAILED, E.DELIVERED)
    for less, more in pairwise(order):
        assert rises(less, more, Channel.EMAIL)


def test_an_sms_keeps_its_first_final_answer() -> None:
    for known, news in product(FINAL, E):
        assert not rises(known, news, Channel.SMS)


@pytest.mark.parametrize("first", [E.ACCEPTED, E.UNKNOWN, E.NONE])
def test_an_email_ends_with_the_same_evidence_whatever_the_order(first: Evidence) -> None:
    for size in (2, 3, 4):
        for news in permutations((E.IN_FLIGHT, *FINAL), size):
            known = first
            for one in news:
                known = one if rises(known, one, Channel.EMAIL) else known
            assert known is max(news)


def test_only_handed_over_and_unknown_may_have_arrived() -> None:
    assert {one for one in E if one.may_have_arrived} == {E.HANDED_OVER, E.UNKNOWN}


def test_accepted_and_in_flight_are_accepted_until_a_failure_is_reported() -> None:
    assert {one for one in E if one.is_accepted} == {E.ACCEPTED, E.IN_FLIGHT}


def test_only_an_open_attempt_counts_as_handed_over() -> None:
    done = AttemptFacts(1, E.UNKNOWN)
    assert not Facts(attempts=(done,)).handed_over
    assert not Facts(attempts=(done, AttemptFacts(2, is_open=True))).handed_over
    assert Facts(attempts=(done, AttemptFacts(2, E.HANDED_OVER, is_open=True))).handed_over


def test_the_subject_is_the_attempt_that_the_news_is_about() -> None:
    first, second = AttemptFacts(1), AttemptFacts(2)
    assert Facts(attempts=(first, second), about=1).subject is first
    assert Facts(attempts=(first, second), about=3).subject is None
    assert Facts(attempts=(first, second)).latest is second
