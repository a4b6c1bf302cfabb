"""One function from (state, trigger, facts) to moved, ignored, refused or noted, pure and total.

Does not write anything: see `transitions.py`.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from dashboard.dispatch.facts import AttemptFacts, Evidence, Facts
from dashboard.dispatch.states import (
    LABELS,
    MOVES,
    PERSONS,
    REPORTS,
    WAITING,
    WORKER_OUTCOMES,
    Hold,
    NextStep,
    State,
    Trigger,
)


class Verdict(StrEnum):
    """The three answers, and the note of a cancel that comes while it is being sent."""

    MOVED = "moved"
    IGNORED = "ignored"
    REFUSED = "refused"
    NOTED = "noted"


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens: `moved` to a state, `ignored`, `refused` with a sentence, or `noted`.

    Attributes:
        conflict: the news contradicts what is known; it is kept and shown, and moves nothing.
    """

    verdict: Verdict
    target: State | None = None
    next_step: NextStep = NextStep.SEND
    sentence: str = ""
    conflict: bool = False


def _moved(target: State, next_step: NextStep = NextStep.SEND) -> Decision:
    return Decision(Verdict.MOVED, target, next_step)


IGNORED = Decision(Verdict.IGNORED)
CONFLICT = Decision(Verdict.IGNORED, conflict=True)


def decide(state: State, trigger: Trigger, facts: Facts) -> Decision:
    """Return what happens to a dispatch; defined for every combination.

    The news of a worker's outcome, a look-up or a report must already be in `facts.attempts`.
    """
    if trigger in PERSONS:
        return _decide_person(state, trigger, facts)
    if trigger in REPORTS:
        return _decide_report(state, trigger, facts)
    if trigger in WORKER_OUTCOMES or trigger in (Trigger.DOUBT, Trigger.LOSE, Trigger.WITHDRAW):
        return _decide_outcome(state, trigger, facts)
    if trigger is Trigger.CLAIM:
        return _decide_claim(state, facts)
    return _decide_upkeep(state, trigger, facts)


def is_claimable(state: State, facts: Facts) -> bool:
    """Return whether a worker may take it now."""
    return (
        state in WAITING
        and facts.due
        and facts.next_step is NextStep.SEND
        and facts.hold is Hold.NONE
        and not facts.replaced
    )


def _decide_claim(state: State, facts: Facts) -> Decision:
    return _moved(State.SENDING) if is_claimable(state, facts) else IGNORED


def may_hand_over(state: State, attempt: int, facts: Facts) -> bool:
    """Return whether the provider may be called for this attempt: the fence of the mark."""
    latest = facts.latest
    return (
        state is State.SENDING
        and latest is not None
        and latest.number == attempt
        and latest.is_open
        and not facts.cancel_noted
        and not any(_proves(one) for one in facts.attempts)
    )


def _proves(one: AttemptFacts) -> bool:
    return one.evidence.is_accepted or one.evidence is Evidence.DELIVERED


def settle(state: State, facts: Facts, own: Decision) -> Decision:
    """Return where the row stands over all its attempts, or the trigger's own target.

    The order in which facts arrive does not matter: a delivery wins, then an acceptance that was
    not reported failed (once no attempt is open), then whatever the trigger says.
    """
    if any(one.evidence is Evidence.DELIVERED for one in facts.attempts):
        return IGNORED if state is State.SUCCEEDED else _moved(State.SUCCEEDED)
    accepted = [one for one in facts.attempts if one.evidence.is_accepted]
    if accepted and not facts.has_open_attempt:
        target = State.SENT if all(one.no_report for one in accepted) else State.AWAITING
        return IGNORED if state is target else _moved(target)
    return own


def _decide_outcome(state: State, trigger: Trigger, facts: Facts) -> Decision:
    """Decide a worker's outcome; `facts.about` is closed by now, so it is not open any more."""
    if state in (State.CANCELLED, State.SUCCEEDED):
        return IGNORED
    if state is State.SENDING and facts.about in (0, facts.latest.number if facts.latest else 0):
        return settle(state, facts, _own_target(trigger, facts))
    if trigger is Trigger.LOSE and state is State.DELAYED and facts.next_step is NextStep.LOOK_UP:
        return settle(state, facts, _moved(State.UNCONFIRMED))
    if trigger in WORKER_OUTCOMES:
        return _decide_late_outcome(state, trigger, facts)
    return IGNORED


def _own_target(trigger: Trigger, facts: Facts) -> Decision:
    if facts.cancel_noted and trigger in (Trigger.DEFER, Trigger.DOUBT):
        return _moved(State.CANCELLED)
    if trigger is Trigger.DEFER and not facts.tries_left:
        return _moved(State.ERRORED)
    if trigger is Trigger.DOUBT:
        if not facts.tries_left:
            return _moved(State.UNCONFIRMED)
        return _moved(State.DELAYED, facts.step)
    return _moved(MOVES[State.SENDING, trigger])


def _decide_late_outcome(state: State, trigger: Trigger, facts: Facts) -> Decision:
    """Decide an outcome that came after somebody else took over or a report moved the row."""
    before_retry = facts.subject is not None and facts.subject.before_retry
    if not facts.news_rose or before_retry:
        return IGNORED
    if trigger in (Trigger.ACCEPT, Trigger.COMPLETE):
        return settle(state, facts, IGNORED)
    waits_for_answer = state is State.UNCONFIRMED or (
        state is State.DELAYED and facts.next_step is NextStep.LOOK_UP
    )
    if waits_for_answer and not facts.may_have_arrived:
        deferred = trigger is Trigger.DEFER and facts.tries_left
        return settle(state, facts, _moved(State.DELAYED if deferred else State.ERRORED))
    return IGNORED


def _decide_report(state: State, trigger: Trigger, facts: Facts) -> Decision:
    if facts.subject is None:
        return CONFLICT if trigger is Trigger.REPORT_DELIVERED else IGNORED
    if not facts.news_rose:
        return _contradiction(trigger, facts.subject.evidence)
    if state is State.CANCELLED:
        return Decision(Verdict.IGNORED, conflict=trigger is Trigger.REPORT_DELIVERED)
    if trigger is Trigger.REPORT_DELIVERED:
        return settle(state, facts, IGNORED)
    if facts.subject.before_retry:
        return IGNORED
    if trigger is Trigger.REPORT_IN_FLIGHT:
        return _decide_in_flight(state, facts)
    return _decide_failed(state, trigger, facts)


def _contradiction(trigger: Trigger, known: Evidence) -> Decision:
    delivered_after_failure = trigger is Trigger.REPORT_DELIVERED and known in (
        Evidence.FAILED,
        Evidence.BOUNCED,
    )
    failed_after_delivery = trigger is Trigger.REPORT_FAILED and known is Evidence.DELIVERED
    return CONFLICT if delivered_after_failure or failed_after_delivery else IGNORED


def _decide_in_flight(state: State, facts: Facts) -> Decision:
    if (state, Trigger.REPORT_IN_FLIGHT) in MOVES or state is State.ERRORED:
        return settle(state, facts, IGNORED)
    return IGNORED


def _decide_failed(state: State, trigger: Trigger, facts: Facts) -> Decision:
    """Decide a failure or a cancellation that the provider reports about one attempt."""
    target = MOVES.get((state, trigger))
    if target is None:
        return IGNORED
    is_latest = facts.latest is not None and facts.about == facts.latest.number
    settled = settle(state, facts, IGNORED)
    if settled.verdict is Verdict.MOVED:
        return settled if state is not State.SENDING or is_latest else IGNORED
    if any(_proves(one) for one in facts.attempts) and not facts.has_open_attempt:
        return IGNORED
    if state in (State.AWAITING, State.SENT, State.UNCONFIRMED):
        return _undelivered(state, facts, target)
    if state is State.SUCCEEDED:
        return _undelivered(state, facts, target) if facts.permanent else IGNORED
    return _moved(target) if is_latest else IGNORED


def _undelivered(state: State, facts: Facts, target: State) -> Decision:
    """Decide the failure of the last attempt that was known to have gone out.

    Where another one may have arrived nobody can say what became of the message; that holds for a
    bounce after the delivery as well, so that the other order ends the same.
    """
    if not facts.may_have_arrived:
        return _moved(target)
    return IGNORED if state is State.UNCONFIRMED else _moved(State.UNCONFIRMED)


def _decide_upkeep(state: State, trigger: Trigger, facts: Facts) -> Decision:
    """Decide what the publisher and the reconciler want."""
    target = MOVES.get((state, trigger))
    if target is None:
        return IGNORED
    allowed = {
        Trigger.FAIL_PUBLISH: not facts.attempts,
        Trigger.STALL: _may_stall(state, facts),
        Trigger.GIVE_UP: facts.hold is Hold.NONE and not facts.replaced,
    }.get(trigger, True)
    if not allowed:
        return IGNORED
    if trigger is Trigger.STALL and state is State.SENDING:
        own = _moved(State.CANCELLED if facts.cancel_noted else target)
        return settle(state, _without_open(facts), own)
    return _moved(target)


def _may_stall(state: State, facts: Facts) -> bool:
    if facts.replaced:
        return False
    if state is State.SENDING:
        return not facts.handed_over
    return facts.due and facts.next_step is NextStep.SEND and facts.hold is Hold.NONE


def _without_open(facts: Facts) -> Facts:
    closed = tuple(replace(one, is_open=False) for one in facts.attempts)
    return replace(facts, attempts=closed)


def _refused(sentence: str) -> Decision:
    return Decision(Verdict.REFUSED, sentence=sentence)


def _decide_person(state: State, trigger: Trigger, facts: Facts) -> Decision:
    if facts.replaced:
        return _refused("It was resent; act on the dispatch that replaced it.")
    if trigger is Trigger.RETRY:
        return _decide_retry(state, facts)
    if trigger is Trigger.REPLACE:
        return _decide_replace(state)
    if state is State.SENDING:
        return Decision(
            Verdict.NOTED, sentence="A worker has it; it is cancelled if it does not go out now."
        )
    if (state, trigger) in MOVES:
        return _moved(State.CANCELLED)
    return _refused(f"It is {LABELS[state].lower()}, so it cannot be cancelled.")


def _decide_retry(state: State, facts: Facts) -> Decision:
    if (state, Trigger.RETRY) not in MOVES:
        return _refused(f"It is {LABELS[state].lower()}, so there is nothing to try again.")
    if state is State.DELAYED and facts.next_step is NextStep.LOOK_UP:
        return _refused("The provider is being asked whether it arrived; wait for the answer.")
    # An errored one may keep the hold of a route that is open by now; `release` lifts it.
    if state is State.DELAYED and facts.hold is Hold.ROUTE:
        return _refused("Its route is paused; resume the route, then it goes out by itself.")
    return _moved(State.QUEUED)


def _decide_replace(state: State) -> Decision:
    if state is State.SENDING:
        return _refused("A worker is sending it right now; wait for the outcome, then resend.")
    if (state, Trigger.REPLACE) in MOVES:
        return _moved(State.CANCELLED)
    return IGNORED
