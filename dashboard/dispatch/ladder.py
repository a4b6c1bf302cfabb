"""When a transient failure is tried again. Pure; it lives in `tries` and `due_at`, not in RQ."""

from datetime import timedelta

MAXIMUM_TRIES = 12
CAP_SECONDS = 600
JITTER = 0.2


def pause(
    tries: int, *, base_seconds: float, luck: float, retry_after_seconds: float | None = None
) -> timedelta:
    """Return how long to wait after the `tries`-th try failed (1 is the first).

    Args:
        tries: how many tries there have been.
        base_seconds: the first pause; it doubles from try to try, up to ten minutes.
        luck: a number in [0, 1) that spreads the tries by up to a fifth either way.
        retry_after_seconds: what the provider asked for; never earlier than that.
    """
    seconds = min(base_seconds * 2 ** min(tries - 1, 30), CAP_SECONDS)
    seconds *= 1 - JITTER + 2 * JITTER * luck
    return timedelta(seconds=max(seconds, retry_after_seconds or 0))


def has_tries_left(tries: int) -> bool:
    """Return whether another try follows after `tries` of them."""
    return tries < MAXIMUM_TRIES
