"""What a new round of tries clears on a dispatch. Pure: the caller writes it with the move."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dashboard.dispatch.states import Failure, Hold
from dashboard.dispatch.transitions import Locked


def clear_for_retry(locked: Locked) -> Mapping[str, Any]:
    """Return the columns that a person's "Try again" clears; attempts keep what they have."""
    return {
        "error": "",
        "failure": Failure.NONE,
        "permanent": False,
        "due_at": locked.now,
        "stalls": 0,
        "tries": 0,
        "losses": 0,
        "stalled_at": None,
        "cancel_noted_by": "",
        "cancel_noted_reason": "",
        "hold": Hold.NONE if locked.dispatch.hold is Hold.BACKFILL else locked.dispatch.hold,
        "attempts_before_retry": locked.dispatch.attempts,
        "expires_at": _still_ahead(locked.dispatch.expires_at, locked.now),
    }


def _still_ahead(expires_at: datetime | None, now: datetime) -> datetime | None:
    """Return when it expires, or never where that has passed: the press says it is still wanted.

    Left as it was, no worker might take it and the next reconcile would expire it again. The
    longest wait (`MAX_WAIT_HOURS`) bounds it all the same.
    """
    return expires_at if expires_at is not None and expires_at > now else None
