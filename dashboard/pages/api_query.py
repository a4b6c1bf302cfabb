"""Reads the query string of the API's list: exact filters and the cursor, each refused by name."""

import base64
import binascii
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from flask import request

from dashboard.dispatch.lists.api_list import Place, Wanted
from dashboard.dispatch.request.fields import Fields
from dashboard.dispatch.states import Channel, State

KNOWN = frozenset(
    {
        *("state", "view", "channel", "kind", "provider", "target_type", "target_id", "label"),
        *("from", "until", "cursor", "limit"),
    }
)
VIEWS = {"all": None, "active": False, "done": True}
MOST_ROWS = 200
E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")


def wanted() -> Wanted:
    """Return what the list is asked for.

    Raises:
        InvalidRequest: every parameter that is unknown or wrong.
    """
    fields = Fields(request.args.to_dict(), [])
    fields.refuse_unknown(KNOWN)
    read = Wanted(
        state=_member(fields, "state", State),
        done=_parsed(fields, "view", VIEWS.__getitem__, "Give all, active or done."),
        channel=_member(fields, "channel", Channel),
        kind=fields.line("kind", octets=100),
        provider=fields.line("provider", octets=100),
        target_type=fields.line("target_type", octets=200),
        target_id=fields.line("target_id", octets=200),
        labels=_labels(fields),
        from_=_parsed(fields, "from", moment, "Give a time with an offset (%2B for +)."),
        until=_parsed(fields, "until", moment, "Give a time with an offset (%2B for +)."),
        after=_parsed(fields, "cursor", place, "It is no cursor of this list; start without."),
        limit=_parsed(fields, "limit", _limit, f"Give a number from 1 to {MOST_ROWS}.") or 50,
    )
    fields.raise_problems()
    return read


def _parsed(fields: Fields, name: str, parse: Callable[[str], T], mend: str) -> T | None:
    text = fields.line(name, octets=500)
    try:
        return parse(text) if text else None
    except (ValueError, KeyError, OverflowError):
        fields.wrong(name, mend)
        return None


def _member(fields: Fields, name: str, kind: type[E]) -> E | None:
    return _parsed(fields, name, kind, f"Give one of: {', '.join(kind)}.")


def _labels(fields: Fields) -> Mapping[str, str]:
    read = {}
    for given in request.args.getlist("label"):
        name, found, value = given.partition("=")
        if not found or Fields({"label": given}, fields.problems).line("label") != given:
            fields.wrong("label", "Give label=name=text, as often as needed.")
        read[name] = value
    return read


def _limit(text: str) -> int:
    number = int(text)
    if not 1 <= number <= MOST_ROWS:
        raise ValueError(text)
    return number


def moment(text: str) -> datetime:
    """Return a time that has an offset, between the years 1970 and 9000.

    Raises:
        ValueError, OverflowError: it is none.
    """
    read = datetime.fromisoformat(text)
    if read.utcoffset() is None or not 1970 < read.year < 9000:
        raise ValueError(text)
    return read


def cursor(last: Place | None) -> str | None:
    """Return a place as the next page names it. It is no secret: the scope is checked anyway."""
    if last is None:
        return None
    return base64.urlsafe_b64encode(f"{last[0].isoformat()} {last[1]}".encode()).decode()


def place(text: str) -> Place:
    """Return the place that a cursor names.

    Raises:
        ValueError: it is no cursor.
    """
    try:
        at, _, dispatch_id = base64.urlsafe_b64decode(text).decode("ascii").partition(" ")
    except binascii.Error as error:
        raise ValueError(text) from error
    return moment(at), uuid.UUID(dispatch_id)
