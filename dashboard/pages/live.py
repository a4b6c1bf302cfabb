"""The pace of live updates: set by the server for each page, none where nothing can change."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from flask import Blueprint, Response, request

from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import State

# A page of one dispatch has to show a change within two seconds; its 204 costs one look-up.
DETAIL_SECONDS = 1.5
# It is done, and yet a late report may come.
LATE_SECONDS = 10
ACTIVE_SECONDS = 3
IDLE_SECONDS = 15
RECENT = timedelta(minutes=1)
OVER = frozenset({State.SENT, State.SUCCEEDED, State.CANCELLED})


def is_htmx() -> bool:
    """Return whether a fragment is wanted: asked by htmx, and not to restore its history."""
    headers = request.headers
    return headers.get("HX-Request") == "true" and not headers.get("HX-History-Restore-Request")


def vary(blueprint: Blueprint) -> None:
    """Let caches know that the same address answers with a page or with a fragment of it."""

    def mark(response: Response) -> Response:
        response.headers.add("Vary", "HX-Request")
        return response

    blueprint.after_request(mark)


def pace_of_detail(row: Dispatch) -> float:
    """Return the seconds between two looks at a dispatch; 0 where nothing is to come."""
    if row.state is State.UNCONFIRMED:
        return LATE_SECONDS
    return 0 if row.state in OVER else DETAIL_SECONDS


def pace_of_list(rows: Iterable[Dispatch], now: datetime) -> float:
    """Return the seconds between two looks at a list: often while something moves on it."""
    moves = any(now - row.updated_at < RECENT for row in rows)
    return ACTIVE_SECONDS if moves else IDLE_SECONDS
