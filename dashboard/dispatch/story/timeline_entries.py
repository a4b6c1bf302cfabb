"""Entry: one line of a dispatch's history, as pages, tickets and the API show it. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from dashboard.dispatch.states import State
from dashboard.providers.error_codes import Advice


class Lane(StrEnum):
    """Who spoke; the value is the lane's name on the page."""

    US = "us"
    PROVIDER = "provider"
    OPERATOR = "operator"
    GAP = "gap"

    @property
    def spoken(self) -> str:
        """The lane in words, for those who do not see it."""
        return {"us": "Wireroom", "provider": "Provider", "operator": "Operator"}.get(self, "")


class Kind(StrEnum):
    """What a line is, as far as merging and folding need to know."""

    OTHER = "other"
    ATTEMPT = "attempt"
    OUTCOME = "outcome"
    FOLD = "fold"
    GAP = "gap"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line.

    Attributes:
        who: the one it is about, in bold; the text follows it.
        note: a second, quieter line.
        state: the state that it led to, shown behind the words; `tint` colours only the node.
        lines: more, behind a disclosure named `lines_title` (the raw report).
        folded: the pairs of attempt and outcome that one line stands for.
        until: when the last of what it stands for happened.
        advice: what its error code means and what to do about it.
        their_time: the provider's own clock, where it differs by more than two seconds.
    """

    at: datetime
    lane: Lane
    who: str = ""
    text: str = ""
    note: str = ""
    state: State | None = None
    tint: State | None = None
    kind: Kind = Kind.OTHER
    attempt: int = 0
    lines: tuple[str, ...] = ()
    lines_title: str = ""
    folded: tuple[tuple["Entry", "Entry"], ...] = ()
    until: datetime | None = None
    their_time: datetime | None = None
    advice: Advice | None = None

    @property
    def rank(self) -> int:
        """The order of lines of one moment: what came of it stands behind what it came of."""
        return {Kind.ATTEMPT: 0, Kind.OUTCOME: 2}.get(self.kind, 1)

    @property
    def words(self) -> str:
        """The line as plain text."""
        return " ".join(one for one in (self.who, self.text) if one)
