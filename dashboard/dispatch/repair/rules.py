"""Which dispatches cannot be trusted, and what is done about each. Pure.

The queries of `passes.py` find candidates; these rules decide once more under the row's lock.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from dashboard.dispatch.states import Hold, NextStep, State

LOSSES_ALLOWED = 2


class Repair(StrEnum):
    """What the reconciler does about one dispatch."""

    NOTHING = "nothing"
    PUBLISH_AGAIN = "publish_again"
    STALL = "stall"
    GIVE_UP = "give_up"
    EXPIRE = "expire"
    CLOSE_LOST = "close_lost"
    FAIL_LOST = "fail_lost"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A dispatch that waits to be claimed, as the reconciler sees it.

    Attributes:
        queue_jobs: how many jobs wait on its queue in Redis; None when Redis does not answer.
        overtaken: a dispatch published later on its queue was already claimed.
        claimed_lately: its queue made a claim within the stall window.
    """

    state: State
    hold: Hold
    next_step: NextStep
    due_at: datetime
    expires_at: datetime | None
    published_at: datetime | None
    replaced: bool
    stalls: int
    stalled_at: datetime | None
    queue_jobs: int | None
    overtaken: bool
    claimed_lately: bool


@dataclass(frozen=True, slots=True)
class Windows:
    """How long is too long."""

    stall: timedelta
    stall_retries: int
    lost_job: timedelta
    maximum_wait: timedelta


def about_waiting(row: Waiting, now: datetime, windows: Windows) -> Repair:
    """Return what is done about a dispatch that waits."""
    if row.expires_at is not None and row.expires_at <= now:
        return Repair.EXPIRE
    if now - row.due_at > windows.maximum_wait:
        return Repair.EXPIRE
    if row.hold is not Hold.NONE or row.replaced or row.due_at > now:
        return Repair.NOTHING
    if row.next_step is not NextStep.SEND:
        return Repair.NOTHING
    return _about_due(row, now, windows)


def _about_due(row: Waiting, now: datetime, windows: Windows) -> Repair:
    since = max(row.due_at, row.stalled_at) if row.stalled_at else row.due_at
    silent = row.overtaken or not row.claimed_lately
    if now - since > windows.stall and silent:
        # Only overtaken rows count: without a worker a row waits, however long, and is visible.
        if row.state is State.STALLED and row.overtaken and row.stalls >= windows.stall_retries:
            return Repair.GIVE_UP
        return Repair.STALL
    lost = row.queue_jobs == 0 or row.overtaken
    if row.published_at is not None and now - row.published_at > windows.lost_job and lost:
        return Repair.PUBLISH_AGAIN
    return Repair.NOTHING


@dataclass(frozen=True, slots=True)
class Sending:
    """A dispatch that a worker claimed and has not closed."""

    started_at: datetime
    worker_gone: bool
    handed_over: bool
    losses: int


def about_sending(row: Sending, now: datetime, deadline: timedelta) -> Repair:
    """Return what is done about a dispatch whose worker may be gone.

    Args:
        deadline: the longest that a claim, a call and its recording take together.
    """
    if not row.worker_gone and now - row.started_at <= deadline:
        return Repair.NOTHING
    if row.handed_over:
        return Repair.DOUBT
    return Repair.FAIL_LOST if row.losses >= LOSSES_ALLOWED else Repair.CLOSE_LOST
