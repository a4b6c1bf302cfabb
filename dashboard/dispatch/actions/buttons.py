"""buttons_for(): the buttons that fit a situation, each with its consequence in words. Pure.

Who may press them: see `access`. Whether a press still fits when it comes: `decisions.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from dashboard.dispatch.actions.situation import Situation
from dashboard.dispatch.ladder import MAXIMUM_TRIES
from dashboard.dispatch.states import Hold, NextStep, State


class Action(StrEnum):
    """What a person can press; the value is the last part of its address."""

    RETRY = "retry"
    RESEND = "resend"
    CANCEL = "cancel"
    ACKNOWLEDGE = "acknowledge"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class Button:
    """One button: its words, and beside it what the press will do.

    Attributes:
        asks: it leads to a page that asks once more, because a second copy may arrive.
        takes_reason: a reason may be given with it.
    """

    action: Action
    label: str
    consequence: str
    asks: bool = False
    takes_reason: bool = False

    @property
    def short(self) -> str:
        """The label where there is little room: in the list."""
        return "Check" if self.action is Action.CHECK else self.label


_OFFERED: Mapping[State, tuple[Action, ...]] = {
    State.QUEUED: (Action.CANCEL,),
    State.SENDING: (),
    State.AWAITING: (Action.CHECK, Action.RESEND),
    State.DELAYED: (Action.RETRY, Action.CANCEL),
    State.STALLED: (Action.RETRY, Action.RESEND, Action.CANCEL),
    State.ERRORED: (Action.RETRY, Action.RESEND, Action.CANCEL),
    State.SENT: (Action.RESEND,),
    State.SUCCEEDED: (Action.RESEND,),
    State.UNCONFIRMED: (Action.CHECK, Action.RESEND, Action.ACKNOWLEDGE),
    State.CANCELLED: (Action.RESEND,),
}


def needs_confirmation(action: Action, situation: Situation) -> bool:
    """Return whether a press is asked once more, because a second copy may arrive."""
    if action is Action.RETRY:
        return situation.maybe_sent
    if action is Action.RESEND:
        seen = situation.state in (State.SUCCEEDED, State.UNCONFIRMED)
        return seen or situation.maybe_sent
    return False


def buttons_for(this: Situation) -> tuple[Button, ...]:
    """Return the buttons that fit, the primary one first; none where it was replaced."""
    if this.replaced:
        return ()
    offered = list(_OFFERED[this.state])
    if this.next_step is NextStep.LOOK_UP or this.hold is Hold.ROUTE:
        offered = [one for one in offered if one is not Action.RETRY]
    if this.state is State.ERRORED and this.permanent:
        offered = [Action.RESEND, Action.RETRY, Action.CANCEL]
    if not this.can_check:
        offered = [one for one in offered if one is not Action.CHECK]
    if this.acknowledged_by:
        offered = [one for one in offered if one is not Action.ACKNOWLEDGE]
    return tuple(_button(action, this) for action in offered)


def _button(action: Action, this: Situation) -> Button:
    asks = needs_confirmation(action, this)
    label = _LABELS[action]
    if action is Action.RETRY and this.state in (State.DELAYED, State.STALLED):
        label = "Try now"
    takes_reason = action in (Action.CANCEL, Action.ACKNOWLEDGE)
    return Button(
        action,
        f"{label}…" if asks else label,
        _consequence(action, this, asks=asks),
        asks=asks,
        takes_reason=takes_reason,
    )


_LABELS = {
    Action.RETRY: "Try again",
    Action.RESEND: "Resend",
    Action.CANCEL: "Cancel",
    Action.ACKNOWLEDGE: "Acknowledge",
    Action.CHECK: "Check with provider",
}


def _consequence(action: Action, this: Situation, *, asks: bool) -> str:
    if action is Action.CHECK:
        return "Asks now what became of it. Nothing is sent."
    if action is Action.CANCEL:
        return "It will never be sent."
    if action is Action.ACKNOWLEDGE:
        return "Takes it off the list that needs attention."
    twice = "It may arrive twice; you are asked once more." if asks else ""
    if action is Action.RETRY:
        if this.permanent and this.state is State.ERRORED:
            return twice or "The same message to the same address, which was refused."
        return twice or f"The same message, with {MAXIMUM_TRIES} new tries. Starts now."
    return " ".join(one for one in ("A new message replaces this one.", this.warning, twice) if one)
