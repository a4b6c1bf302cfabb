"""diagnose(): what became of a dispatch, in one sentence. Pure.

One table of state by failure, so that list, page, target and API say the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from dashboard.dispatch.actions.buttons import Button, buttons_for
from dashboard.dispatch.actions.situation import Situation
from dashboard.dispatch.ladder import MAXIMUM_TRIES
from dashboard.dispatch.states import Failure, Hold, NextStep, State
from dashboard.dispatch.story.wording import (
    actor_name,
    clipped,
    count_of,
    full_stop,
    precise_duration,
    sentence_case,
)

ERROR_SHOWN = 240
ERROR_IN_LIST = 110
AHEAD_COUNTED = 1000


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What became of a dispatch.

    Attributes:
        headline: the one sentence that answers "did it go out?".
        detail: what else matters before pressing; may be empty.
        short: the line of the list.
        buttons: those that fit, the primary one first.
    """

    headline: str
    detail: str
    short: str
    buttons: tuple[Button, ...]


@dataclass(frozen=True, slots=True)
class _Words:
    headline: str
    detail: str = ""
    short: str = ""


def diagnose(situation: Situation) -> Diagnosis:
    """Return the sentence and the buttons for a situation; every situation has one."""
    words = _SENTENCES[situation.state](situation)
    detail = words.detail
    if situation.replaced:
        detail = f"{detail} It was replaced by a newer one; act on that.".strip()
    short = words.short or words.headline
    if situation.replaced:
        short = f"Replaced. {short}"
    return Diagnosis(words.headline, detail, short, buttons_for(situation))


# ---- sentences --------------------------------------------------------------------------------


def _queued(this: Situation) -> _Words:
    if this.hold is not Hold.NONE:
        return _held(this, "Queued, and held.")
    if this.due_at and this.due_at - this.now > timedelta(seconds=1):
        when = this.say_time(this.due_at)
        wait = precise_duration(this.due_at - this.now)
        return _Words(f"Scheduled for {when}.", f"It goes out in {wait}.", f"Scheduled for {when}.")
    since = this.at(this.due_at or this.requested_at, " since ")
    return _Words(f"Waiting for a worker{since}.", _line(this), _line(this) or "Waits its turn.")


def _line(this: Situation) -> str:
    """Return who is before it and who works on it, as far as somebody counted."""
    if this.ahead is None or this.workers is None:
        return ""
    ahead = f"{this.ahead:,} ahead of it" if this.ahead else "Nothing is ahead of it"
    if this.ahead >= AHEAD_COUNTED:
        ahead = f"Over {AHEAD_COUNTED:,} ahead of it"
    if this.workers == 0:
        return f"{ahead}, and no worker is on the queue {this.queue}. Start one."
    return f"{ahead}, {count_of(this.workers, 'worker')} on the queue {this.queue}."


def _held(this: Situation, headline: str) -> _Words:
    reasons = {
        Hold.ROUTE: f"Its route is paused: {this.hold_reason or this.error or 'see its reason'}",
        Hold.RATE: "Its source sends as much as it may; it follows by itself.",
        Hold.QUIET: "These are quiet hours for its recipient; it follows by itself.",
        Hold.BACKFILL: "It was found missing afterwards; somebody has to decide to send it.",
    }
    reason = clipped(reasons.get(this.hold, ""), ERROR_SHOWN)
    ending = " It goes out when the route works again." if this.hold is Hold.ROUTE else ""
    return _Words(headline, f"{full_stop(reason)}{ending}", clipped(reason, ERROR_IN_LIST))


def _sending(this: Situation) -> _Words:
    started = f"Attempt {this.attempts} started {this.since(this.started_at)} ago"
    noted = ""
    if this.cancel_noted_by:
        who = actor_name(this.cancel_noted_by)
        noted = f"{who} asked to cancel it: it stops before the hand-over if that is still to come."
    worker = f" on worker {this.worker}" if this.worker else ""
    return _Words(f"{started}{worker}.", noted, f"{started}.")


def _awaiting(this: Situation) -> _Words:
    who = sentence_case(this.who)
    return _Words(
        f"{who} accepted it{this.at(this.finished_at)}; no delivery report yet.",
        "Most reports take under 5 min.",
        f"{who} accepted it; no delivery report yet.",
    )


def _delayed(this: Situation) -> _Words:
    if this.next_step is NextStep.LOOK_UP:
        line = f"Asking {this.who} whether attempt {this.attempts} arrived."
        return _Words(line, "Nothing is sent again before the answer.", line)
    if this.hold is not Hold.NONE:
        return _held(this, "Delayed, and held.")
    last = clipped(this.error, ERROR_SHOWN)
    when = this.say_time(this.due_at) if this.due_at else "soon"
    wait = ""
    if this.due_at and this.due_at > this.now:
        wait = f", in {precise_duration(this.due_at - this.now)}"
    maybe = " An earlier attempt may have arrived." if this.maybe_sent else ""
    return _Words(
        f"Will be tried again at {when}, try {this.tries + 1} of {MAXIMUM_TRIES}.",
        f"{_last(last, wait)}{maybe}",
        clipped(this.error, ERROR_IN_LIST) or "Will be tried again.",
    )


def _last(error: str, wait: str) -> str:
    said = f"Last answer: {full_stop(error)}" if error else ""
    return f"That is{wait.removeprefix(',')}. {said}".strip() if wait else said


def _stalled(this: Situation) -> _Words:
    if this.hold is Hold.BACKFILL:
        return _held(this, "Stalled: it is not sent by itself.")
    maybe = "An earlier attempt may have arrived." if this.maybe_sent else ""
    if this.due_at and this.due_at > this.now:
        when = this.say_time(this.due_at)
        return _Words(f"Scheduled for {when}, after it had stalled.", maybe)
    waited = this.since(this.due_at or this.requested_at)
    taken = f"No worker has taken it for {waited}" if waited else "No worker has taken it"
    return _Words(
        f"Stalled. {taken}.",
        " ".join(one for one in ("It goes out when one does.", _line(this), maybe) if one),
        f"{taken}.",
    )


def _errored(this: Situation) -> _Words:
    error = clipped(this.error, ERROR_SHOWN)
    headline, advice = _failures(this)[this.failure]
    if this.maybe_sent:
        advice = "An earlier attempt may have arrived: trying again may make it arrive twice."
    elif this.failure is Failure.REPORT and not this.permanent:
        advice = "Trying again may help."
    told = f"{sentence_case(this.who)} said: {full_stop(error)} " if error else ""
    if this.failure in _OWN_WORDS:
        told = f"{full_stop(error)} " if error else ""
    last = this.at(this.finished_at, "Last tried at ")
    detail = f"{told}{f'{last}. ' if last and this.attempts else ''}{advice}".strip()
    short = clipped(this.error, ERROR_IN_LIST) or headline
    maybe = " May have arrived." if this.maybe_sent else ""
    return _Words(f"Not sent. {headline}", detail, f"{full_stop(short)}{maybe}")


# Failures whose error text is Wireroom's own, not the provider's.
_OWN_WORDS = frozenset(
    {Failure.PUBLISH, Failure.LOST, Failure.EXPIRED, Failure.BUG, Failure.SUPPRESSED, Failure.NONE}
)


def _failures(this: Situation) -> dict[Failure, tuple[str, str]]:
    who = sentence_case(this.who)
    certain = "It certainly did not arrive; trying again is safe."
    hopeless = "Trying again will not help."
    tries = count_of(max(this.tries, this.attempts, 1), "try", "tries")
    return {
        Failure.NONE: ("See what happened below.", certain),
        Failure.PUBLISH: (
            "Redis did not take its job.",
            "It is tried again by itself as soon as Redis answers.",
        ),
        Failure.REFUSED: (f"{who} refused it.", hopeless if this.permanent else certain),
        Failure.REPORT: (f"{who} could not deliver it.", hopeless),
        Failure.EXHAUSTED: (f"{who} did not take it in {tries}.", certain),
        Failure.LOST: ("No worker completed it.", certain),
        Failure.EXPIRED: ("It was not sent in time.", "Send a new one if it is still wanted."),
        Failure.BUG: (
            "Wireroom itself failed on it.",
            "The log has the whole error. Trying again helps only once that is mended.",
        ),
        Failure.SUPPRESSED: (
            "Its recipient is on the suppression list.",
            "Lift the suppression first, then try again.",
        ),
    }


def _sent(this: Situation) -> _Words:
    who = sentence_case(this.who)
    return _Words(
        f"Sent. {who} accepted it{this.at(this.finished_at)}.",
        "This route gives no delivery reports.",
        f"{who} accepted it.",
    )


def _succeeded(this: Situation) -> _Words:
    took = ""
    if this.finished_at and this.requested_at:
        took = (
            f"That was {precise_duration(this.finished_at - this.requested_at)} after the request."
        )
    return _Words(f"Delivered{this.at(this.finished_at)}.", took, "Delivered.")


def _unconfirmed(this: Situation) -> _Words:
    who = sentence_case(this.who)
    if this.proven:
        headline = f"Outcome unknown. {who} accepted it, but no report came."
    else:
        headline = f"Outcome unknown. {full_stop(clipped(this.error, ERROR_SHOWN) or _LOST)}"
    seen = ""
    if this.acknowledged_by:
        seen = f" {actor_name(this.acknowledged_by)} looked at it and left it so."
    short = clipped(headline.removeprefix("Outcome unknown. "), ERROR_IN_LIST)
    return _Words(headline, f"It may have arrived.{seen}", short)


_LOST = "Its worker was lost while the provider was being called."


def _cancelled(this: Situation) -> _Words:
    by = f" by {actor_name(this.cancelled_by)}" if this.cancelled_by else ""
    reason = f": {clipped(this.cancel_reason, ERROR_SHOWN)}" if this.cancel_reason else ""
    headline = full_stop(f"Cancelled{by}{this.at(this.finished_at)}{reason}")
    detail = "It will not be sent."
    if this.proven:
        detail = f"{sentence_case(this.who)} had accepted it before that."
    elif this.maybe_sent:
        detail = "It may have arrived before that."
    return _Words(headline, detail, full_stop(f"Cancelled{by}{reason}"))


_SENTENCES: dict[State, Callable[[Situation], _Words]] = {
    State.QUEUED: _queued,
    State.SENDING: _sending,
    State.AWAITING: _awaiting,
    State.DELAYED: _delayed,
    State.STALLED: _stalled,
    State.ERRORED: _errored,
    State.SENT: _sent,
    State.SUCCEEDED: _succeeded,
    State.UNCONFIRMED: _unconfirmed,
    State.CANCELLED: _cancelled,
}
