"""States, triggers and the table of moves, pure. What the facts change about it: `decisions.py`.

Does not write anything: `transitions.py` is the only writer of a state. The README's drawing is
made from MOVES.

                    claim              accept                 report_delivered
    queued ───────────────▶ sending ─────────▶ awaiting ──────────────▶ succeeded
      ▲   ▲                 │ │ │ └─ complete ▶ sent                        ▲
      │   └─ retry ─┐       │ │ └─ doubt/lose ▶ delayed/unconfirmed ────────┘
      │          errored ◀──┘ └─ defer ▶ delayed ── claim ▶ sending
      └ stall ▶ stalled (claim, retry, give_up ▶ errored)      cancel, replace ▶ cancelled
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """The ten states of a dispatch."""

    QUEUED = "queued"
    SENDING = "sending"
    AWAITING = "awaiting"
    DELAYED = "delayed"
    STALLED = "stalled"
    ERRORED = "errored"
    SENT = "sent"
    SUCCEEDED = "succeeded"
    UNCONFIRMED = "unconfirmed"
    CANCELLED = "cancelled"

    @property
    def is_done(self) -> bool:
        """Whether nothing more is to happen unless a report or a person says otherwise."""
        return self in DONE

    @property
    def is_waiting(self) -> bool:
        """Whether it waits to be claimed."""
        return self in WAITING


class Trigger(StrEnum):
    """Everything that can happen to a dispatch."""

    CLAIM = "claim"
    ACCEPT = "accept"
    COMPLETE = "complete"
    DEFER = "defer"
    FAIL = "fail"
    DOUBT = "doubt"
    LOSE = "lose"
    WITHDRAW = "withdraw"
    FAIL_PUBLISH = "fail_publish"
    REPORT_IN_FLIGHT = "report_in_flight"
    REPORT_DELIVERED = "report_delivered"
    REPORT_FAILED = "report_failed"
    REPORT_CANCELLED = "report_cancelled"
    TIME_OUT = "time_out"
    STALL = "stall"
    GIVE_UP = "give_up"
    EXPIRE = "expire"
    RETRY = "retry"
    REPLACE = "replace"
    CANCEL = "cancel"


class Channel(StrEnum):
    """What a dispatch is sent as."""

    EMAIL = "email"
    SMS = "sms"


class NextStep(StrEnum):
    """What a waiting dispatch waits for: to be sent, or for the provider to be asked about it."""

    SEND = "send"
    LOOK_UP = "look_up"


class Hold(StrEnum):
    """Why a waiting dispatch is not to be claimed now."""

    NONE = ""
    ROUTE = "route"
    RATE = "rate"
    QUIET = "quiet"
    BACKFILL = "backfill"


class Failure(StrEnum):
    """Why a dispatch is errored."""

    NONE = ""
    PUBLISH = "publish"
    REFUSED = "refused"
    REPORT = "report"
    EXHAUSTED = "exhausted"
    LOST = "lost"
    EXPIRED = "expired"
    BUG = "bug"
    SUPPRESSED = "suppressed"


DONE = frozenset({State.SENT, State.SUCCEEDED, State.UNCONFIRMED, State.CANCELLED})
WAITING = frozenset({State.QUEUED, State.DELAYED, State.STALLED})
WORKER_OUTCOMES = frozenset({Trigger.ACCEPT, Trigger.COMPLETE, Trigger.DEFER, Trigger.FAIL})
REPORTS = frozenset(
    {
        Trigger.REPORT_IN_FLIGHT,
        Trigger.REPORT_DELIVERED,
        Trigger.REPORT_FAILED,
        Trigger.REPORT_CANCELLED,
    }
)
PERSONS = frozenset({Trigger.RETRY, Trigger.REPLACE, Trigger.CANCEL})


def _moves(trigger: Trigger, target: State, *sources: State) -> dict[tuple[State, Trigger], State]:
    return {(source, trigger): target for source in sources}


_S = State
MOVES: Mapping[tuple[State, Trigger], State] = MappingProxyType(
    _moves(Trigger.CLAIM, _S.SENDING, _S.QUEUED, _S.DELAYED, _S.STALLED)
    | _moves(Trigger.ACCEPT, _S.AWAITING, _S.SENDING)
    | _moves(Trigger.COMPLETE, _S.SENT, _S.SENDING)
    | _moves(Trigger.DEFER, _S.DELAYED, _S.SENDING)
    | _moves(Trigger.FAIL, _S.ERRORED, _S.SENDING)
    | _moves(Trigger.DOUBT, _S.DELAYED, _S.SENDING)
    | _moves(Trigger.LOSE, _S.UNCONFIRMED, _S.SENDING, _S.DELAYED)
    | _moves(Trigger.WITHDRAW, _S.CANCELLED, _S.SENDING)
    | _moves(Trigger.FAIL_PUBLISH, _S.ERRORED, _S.QUEUED)
    | _moves(
        Trigger.REPORT_IN_FLIGHT,
        _S.AWAITING,
        *(_S.QUEUED, _S.SENDING, _S.DELAYED, _S.STALLED, _S.UNCONFIRMED),
    )
    | _moves(
        Trigger.REPORT_DELIVERED,
        _S.SUCCEEDED,
        *(_S.QUEUED, _S.SENDING, _S.AWAITING, _S.DELAYED, _S.STALLED),
        *(_S.UNCONFIRMED, _S.SENT, _S.ERRORED),
    )
    | _moves(
        Trigger.REPORT_FAILED,
        _S.ERRORED,
        *(_S.QUEUED, _S.SENDING, _S.AWAITING, _S.DELAYED, _S.STALLED),
        *(_S.UNCONFIRMED, _S.SENT, _S.SUCCEEDED),
    )
    | _moves(
        Trigger.REPORT_CANCELLED,
        _S.CANCELLED,
        *(_S.SENDING, _S.AWAITING, _S.DELAYED, _S.UNCONFIRMED),
    )
    | _moves(Trigger.TIME_OUT, _S.UNCONFIRMED, _S.AWAITING)
    | _moves(Trigger.STALL, _S.STALLED, _S.QUEUED, _S.DELAYED, _S.SENDING, _S.STALLED)
    | _moves(Trigger.GIVE_UP, _S.ERRORED, _S.STALLED)
    | _moves(Trigger.EXPIRE, _S.ERRORED, _S.QUEUED, _S.DELAYED, _S.STALLED)
    | _moves(Trigger.RETRY, _S.QUEUED, _S.ERRORED, _S.STALLED, _S.DELAYED)
    | _moves(Trigger.REPLACE, _S.CANCELLED, _S.QUEUED, _S.DELAYED, _S.STALLED)
    | _moves(Trigger.CANCEL, _S.CANCELLED, _S.QUEUED, _S.DELAYED, _S.STALLED, _S.ERRORED)
)


LABELS: Mapping[State, str] = MappingProxyType(
    {
        State.QUEUED: "Queued",
        State.SENDING: "Sending",
        State.AWAITING: "Sent, awaiting report",
        State.DELAYED: "Delayed",
        State.STALLED: "Stalled",
        State.ERRORED: "Not sent",
        State.SENT: "Sent",
        State.SUCCEEDED: "Delivered",
        State.UNCONFIRMED: "Outcome unknown",
        State.CANCELLED: "Cancelled",
    }
)
