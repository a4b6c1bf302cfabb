"""The policy for outcomes that nobody knows. Pure.

In this order: send again under an idempotency key that is still valid; ask the provider; the
source's policy, which is to send again (a duplicate, never a miss) or to hold (a person decides).
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from dashboard.providers.base import Capabilities

LOOK_UP_AFTER = (timedelta(seconds=30), timedelta(minutes=2))
LOOK_UP_FOR = timedelta(hours=2)


class Policy(StrEnum):
    """What a source wants where nobody can say whether a message arrived."""

    RESEND = "resend"
    HOLD = "hold"


class Remedy(StrEnum):
    """What is done about an unknown outcome."""

    SAME_KEY = "same_key"
    LOOK_UP = "look_up"
    RESEND = "resend"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Doubt:
    """What the policy depends on.

    Attributes:
        capabilities: of the route that the attempt went out by.
        policy: of the source, for the channel.
        key_age: since the first attempt under the idempotency key.
        has_secrets: the message is built anew each time, so that no render is byte-identical.
    """

    capabilities: Capabilities
    policy: Policy
    key_age: timedelta = timedelta(0)
    has_secrets: bool = False


def remedy(doubt: Doubt) -> Remedy:
    """Return what is done about an attempt whose outcome nobody knows."""
    key_holds = doubt.key_age.total_seconds() < doubt.capabilities.idempotency_seconds
    if doubt.capabilities.takes_idempotency_key and key_holds and not doubt.has_secrets:
        return Remedy.SAME_KEY
    if doubt.capabilities.can_look_up:
        return Remedy.LOOK_UP
    return Remedy.RESEND if doubt.policy is Policy.RESEND else Remedy.HOLD


NOTES = {
    Remedy.SAME_KEY: "Sent again under the same idempotency key; the provider drops a second copy.",
    Remedy.LOOK_UP: "Asking the provider whether it arrived before anything is sent again.",
    Remedy.RESEND: "Sent again; it may have arrived twice.",
    Remedy.HOLD: "Held: a person decides whether to send it again.",
}
