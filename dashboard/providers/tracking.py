"""How our key travels with an email and comes back with its reports: tracking strategies.

A strategy is chosen by `WIREROOM_EMAIL_TRACKING_STRATEGY`: `metadata`, `tag`, `none`, or the dotted
path of a class of one's own. Whatever it says, the provider's own message id is compared first.
"""

import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol, runtime_checkable

METADATA_NAME = "wireroom_dispatch"
TAG_PREFIX = "wireroom-"
_KEY = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.[0-9]{1,6})?", re.IGNORECASE)


class StrategyInvalid(Exception):
    """There is no such strategy; the message says what the setting must be."""


class Trackable(Protocol):
    """The message to be sent, as far as a strategy may change it."""

    metadata: MutableMapping[str, str]
    tags: list[str]
    extra_headers: MutableMapping[str, str]


@dataclass(frozen=True, slots=True)
class TrackedReport:
    """What a service gave back with a report, as far as a strategy may need it."""

    metadata: Mapping[str, object] = field(default_factory=dict)
    tags: Sequence[str] = ()
    provider_message_id: str = ""


@runtime_checkable
class TrackingStrategy(Protocol):
    """How the key goes out and is found again."""

    def attach(self, message: Trackable, key: str) -> None:
        """Put the key, `<dispatch id>.<attempt>`, on a message; receivers may see it."""
        ...

    def find_key(self, report: TrackedReport) -> str:
        """Return the key that a report carries, or empty."""
        ...


class MetadataStrategy:
    """The default: one entry of the service's metadata, under a name that collides with none."""

    def attach(self, message: Trackable, key: str) -> None:
        """Add the entry."""
        message.metadata[METADATA_NAME] = key

    def find_key(self, report: TrackedReport) -> str:
        """Return the entry, if it is a key of ours."""
        return as_key(report.metadata.get(METADATA_NAME))


class TagStrategy:
    """For services whose reports carry tags only."""

    def attach(self, message: Trackable, key: str) -> None:
        """Add a tag."""
        message.tags.append(f"{TAG_PREFIX}{key}")

    def find_key(self, report: TrackedReport) -> str:
        """Return the key of the first tag of ours."""
        keys = (as_key(tag[len(TAG_PREFIX) :]) for tag in report.tags if tag.startswith(TAG_PREFIX))
        return next((key for key in keys if key), "")


class NoStrategy:
    """Nothing goes out with the message; reports are matched by the service's id alone."""

    def attach(self, message: Trackable, key: str) -> None:
        """Leave the message as it is."""

    def find_key(self, report: TrackedReport) -> str:  # noqa: ARG002 - the protocol's argument
        """Return that there is none."""
        return ""


STRATEGIES: Mapping[str, type[TrackingStrategy]] = {
    "metadata": MetadataStrategy,
    "tag": TagStrategy,
    "none": NoStrategy,
}


def as_key(value: object) -> str:
    """Return `value` if it has the form of a key, else empty."""
    return value if isinstance(value, str) and _KEY.fullmatch(value) else ""


def strategy(wanted: str | type[TrackingStrategy]) -> TrackingStrategy:
    """Return the strategy of a name, a dotted path or a class.

    Raises:
        StrategyInvalid: see there.
    """
    found: object = wanted
    if isinstance(wanted, str):
        found = STRATEGIES.get(wanted) or _imported(wanted)
    if not isinstance(found, type) or not issubclass(found, TrackingStrategy):
        raise _invalid(wanted)
    return found()


def _imported(path: str) -> object:
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name) if module else None
    except (ImportError, AttributeError):
        raise _invalid(path) from None


def _invalid(wanted: object) -> StrategyInvalid:
    return StrategyInvalid(
        f"WIREROOM_EMAIL_TRACKING_STRATEGY is {wanted!r}; it must be metadata, tag, none, or the "
        "dotted path of a class with attach(message, key) and find_key(report)."
    )
