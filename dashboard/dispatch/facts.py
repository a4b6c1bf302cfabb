"""What a decision may depend on besides the state and the trigger, pure.

Does not read the database: `transitions.py` makes the facts from locked rows.
"""

from dataclasses import dataclass
from enum import IntEnum

from dashboard.dispatch.states import Channel, Failure, Hold, NextStep


class Evidence(IntEnum):
    """What is known about one attempt; news only rises."""

    NONE = 0
    HANDED_OVER = 1
    UNKNOWN = 2
    # It certainly did not go out: the provider refused it, was not reached, or a look-up missed it.
    ABSENT = 3
    ACCEPTED = 4
    IN_FLIGHT = 5
    FAILED = 6
    DELIVERED = 7
    BOUNCED = 8

    @property
    def may_have_arrived(self) -> bool:
        """Whether nobody can say: handed over or lost, and not looked up as missing."""
        return self in (Evidence.HANDED_OVER, Evidence.UNKNOWN)

    @property
    def is_accepted(self) -> bool:
        """Whether the provider has it and has not said that it failed."""
        return self in (Evidence.ACCEPTED, Evidence.IN_FLIGHT)


def rises(known: Evidence, news: Evidence, channel: Channel) -> bool:
    """Return whether news about an attempt is more than what is known about it.

    An SMS has one final answer, whichever came first: parts of a long one report apart. An
    email's permanent bounce outweighs its delivery in either order, a delivery a soft failure.
    """
    final = (Evidence.FAILED, Evidence.DELIVERED, Evidence.BOUNCED)
    if channel is Channel.SMS and known in final:
        return False
    return news > known


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What is known about one attempt.

    Attributes:
        is_open: the row's `sending` stands for it, and neither its worker nor a report has spoken.
        before_retry: older than a person's last "Try again".
        no_report: it was accepted by a route that gives no reports.
    """

    number: int
    evidence: Evidence = Evidence.NONE
    is_open: bool = False
    before_retry: bool = False
    no_report: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything a decision may depend on besides the state and the trigger.

    Attributes:
        due: `due_at` has come and `expires_at` has not.
        attempts: all of them, the news of this trigger already in.
        about: the number of the attempt that the trigger brings news of; 0 for none.
        news_rose: whether the news was more than what was known about that attempt.
        tries_left: whether the ladder has another try.
        permanent: the failure is a permanent bounce or rejection.
        next_step: of the row now; `step` is what the trigger asks for (doubt).
    """

    channel: Channel = Channel.EMAIL
    hold: Hold = Hold.NONE
    due: bool = True
    next_step: NextStep = NextStep.SEND
    step: NextStep = NextStep.SEND
    replaced: bool = False
    cancel_noted: bool = False
    attempts: tuple[AttemptFacts, ...] = ()
    about: int = 0
    news_rose: bool = True
    tries_left: bool = True
    permanent: bool = False
    failure: Failure = Failure.NONE

    @property
    def latest(self) -> AttemptFacts | None:
        """The newest attempt, if any."""
        return self.attempts[-1] if self.attempts else None

    @property
    def subject(self) -> AttemptFacts | None:
        """The attempt that the trigger brings news of."""
        return next((one for one in self.attempts if one.number == self.about), None)

    @property
    def has_open_attempt(self) -> bool:
        """Whether a worker is at it."""
        return any(one.is_open for one in self.attempts)

    @property
    def handed_over(self) -> bool:
        """Whether the open attempt passed its hand-over mark."""
        return any(one.is_open and one.evidence >= Evidence.HANDED_OVER for one in self.attempts)

    @property
    def may_have_arrived(self) -> bool:
        """Whether some attempt may have arrived without anybody knowing."""
        return any(one.evidence.may_have_arrived for one in self.attempts)
