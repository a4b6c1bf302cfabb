"""What the address of a list says, and how it is written: filters, places, the sealed search text.

An address or a name that somebody searches for never stands in a URL or a log: the text is
encrypted with a key made from SECRET_KEY, the places in the list are signed.
"""

import base64
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode

from cryptography.fernet import Fernet, InvalidToken
from itsdangerous import BadSignature, URLSafeSerializer
from werkzeug.exceptions import BadRequest

from dashboard.dispatch.lists.search import Filters, Place, View
from dashboard.dispatch.states import LABELS, Channel, State
from dashboard.settings import current

LIST = "/dispatches"
# A link with a search in it works for a week; after that the search is typed again.
TEXT_SECONDS = 7 * 24 * 3600
TEXT_LIMIT = 320
E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list as its address says it.

    Attributes:
        token: the sealed search text, as it came.
        after, before: the place that the page begins behind, reading older or newer.
        is_stale: the search text could not be opened (any more); the list is without it.
    """

    filters: Filters = field(default_factory=Filters)
    token: str = ""
    after: Place | None = None
    before: Place | None = None
    is_stale: bool = False

    @property
    def query(self) -> str:
        """The query string of this very page."""
        return urlencode(self._pairs())

    @property
    def url(self) -> str:
        """The address of this very page."""
        return f"{LIST}?{self.query}" if self.query else LIST

    def turned(self, *, after: Place | None = None, before: Place | None = None) -> str:
        """Return the address of another page of this list."""
        return replace(self, after=after, before=before).url

    def viewed(self, view: str) -> str:
        """Return the address of the first page of another view, the filters kept."""
        filters = replace(self.filters, view=View(view))
        return replace(self, filters=filters, after=None, before=None).url

    def chips(self) -> list[tuple[str, str]]:
        """Return the filters in words, each with the address of the list without it."""
        first = replace(self, after=None, before=None)
        filters = self.filters
        found: list[tuple[str, str]] = []
        if filters.state is not None:
            without = replace(first, filters=replace(filters, state=None))
            found.append((f"state is {LABELS[filters.state].lower()}", without.url))
        if filters.channel is not None:
            without = replace(first, filters=replace(filters, channel=None))
            found.append((f"channel is {filters.channel.value}", without.url))
        if filters.text:
            without = replace(first, filters=replace(filters, text=""), token="")
            found.append((f"contains \u201c{filters.text}\u201d", without.url))
        return found

    def _pairs(self) -> dict[str, str]:
        filters = self.filters
        pairs = {
            "view": "" if filters.view is View.FIRST else filters.view.value,
            "state": filters.state.value if filters.state else "",
            "channel": filters.channel.value if filters.channel else "",
            "q": self.token,
            "after": sign(self.after) if self.after else "",
            "before": sign(self.before) if self.before else "",
        }
        return {name: value for name, value in pairs.items() if value}


def read(arguments: Mapping[str, str]) -> Listing:
    """Return what the arguments of a request ask for.

    Raises:
        BadRequest: when one of them is none of ours; the sentence says which.
    """
    token = arguments.get("q", "")
    text = unseal(token) if token else ""
    return Listing(
        filters=Filters(
            view=_member(View, "view", arguments) or View.FIRST,
            state=_member(State, "state", arguments),
            channel=_member(Channel, "channel", arguments),
            text=text or "",
        ),
        token=token if text else "",
        after=_place("after", arguments),
        before=_place("before", arguments),
        is_stale=bool(token) and not text,
    )


def _member(enum: type[E], name: str, arguments: Mapping[str, str]) -> E | None:
    value = arguments.get(name, "")
    try:
        return enum(value) if value else None
    except ValueError:
        known = ", ".join(member.value for member in enum)
        raise BadRequest(f"There is no {name} of that name. Known are: {known}.") from None


def _place(name: str, arguments: Mapping[str, str]) -> Place | None:
    value = arguments.get(name, "")
    return unsign(value) if value else None


def seal(text: str) -> str:
    """Return a search text as it may stand in a URL."""
    return _fernet().encrypt(text.strip()[:TEXT_LIMIT].encode("utf-8", "replace")).decode()


def unseal(token: str) -> str | None:
    """Return the search text of a URL, or None when it is not ours or too old."""
    try:
        return _fernet().decrypt(token.encode("utf-8", "replace"), ttl=TEXT_SECONDS).decode()
    except (InvalidToken, ValueError):
        return None


def sign(place: Place) -> str:
    """Return a place in the list as it may stand in a URL."""
    return str(_serializer().dumps([place.created_at.isoformat(), str(place.id)]))


def unsign(value: str) -> Place:
    """Return the place that a URL names.

    Raises:
        BadRequest: when it was not made here.
    """
    try:
        moment, identifier = _serializer().loads(value)
        return Place(datetime.fromisoformat(moment), uuid.UUID(identifier))
    except (BadSignature, ValueError, TypeError):
        raise BadRequest(
            "This link into the list is not one of ours, or was cut. Start at the newest."
        ) from None


def digest(*parts: object) -> str:
    """Return a short fingerprint of what a page shows, to tell whether it changed."""
    return hashlib.sha256(json.dumps(parts, default=str).encode()).hexdigest()[:16]


def _fernet() -> Fernet:
    secret = current().secret_key.get_secret_value().encode()
    return Fernet(base64.urlsafe_b64encode(hashlib.sha256(b"wireroom search " + secret).digest()))


def _serializer() -> URLSafeSerializer:
    return URLSafeSerializer(current().secret_key.get_secret_value(), salt="wireroom place")
