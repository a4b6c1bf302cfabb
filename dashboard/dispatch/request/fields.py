"""Reads the fields of an untrusted mapping, one after another, and collects what is wrong.

Pure. A field that is wrong reads as its empty value, so that all problems are found in one pass.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from dashboard.dispatch.request.addresses import AddressRefused
from dashboard.dispatch.request.requests import InvalidRequest, Problem

# C0, DEL, C1 and the Unicode line separators: all that some reader takes for the end of a line.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# They turn the reading direction around, which hides what a file or an address is.
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")

MISSING = "It is missing."
T = TypeVar("T")


def text_problem(value: str) -> str:
    """Return what keeps a text from being stored, or nothing."""
    if "\x00" in value:
        return "It holds a NUL character, which cannot be stored; remove it."
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return "It holds half a surrogate pair, which is no character; send valid Unicode."
    return ""


def line_problem(value: str) -> str:
    """Return what keeps a text from standing in a header, or nothing."""
    if _CONTROL.search(value):
        return "It holds a line break or another control character; give it as one line."
    return text_problem(value)


def spoof_problem(value: str) -> str:
    """Return what makes a name or an address read as something else, or nothing."""
    if _BIDI.search(value):
        return "It holds a character that turns the reading direction around; remove it."
    return line_problem(value)


class Fields:
    """The fields of one mapping; problems of all of them are collected in one list."""

    def __init__(
        self, values: Mapping[str, object], problems: list[Problem], prefix: str = ""
    ) -> None:
        self.values = values
        self.problems = problems
        self.prefix = prefix

    def wrong(self, name: str, message: str) -> None:
        """Note what is wrong with a field."""
        self.problems.append(Problem(f"{self.prefix}{name}" or "body", message))

    def refuse_unknown(self, known: frozenset[str]) -> None:
        """Note every field that nobody reads: a misspelt one must not be dropped in silence."""
        for name in self.values:
            if name not in known:
                shown = name if not line_problem(name) and len(name) <= 100 else "(unreadable)"
                self.wrong(shown, "There is no such field; see the fields in the API description.")

    def raise_problems(self) -> None:
        """Raise what was found, if anything.

        Raises:
            InvalidRequest: with every problem.
        """
        if self.problems:
            raise InvalidRequest(self.problems)

    def text(self, name: str, *, required: bool = False, octets: int | None = None) -> str:
        """Read a text of any number of lines."""
        return self._string(name, text_problem, required=required, octets=octets)

    def line(self, name: str, *, required: bool = False, octets: int = 998) -> str:
        """Read a text that stands in a header or on one line of a page."""
        return self._string(name, line_problem, required=required, octets=octets)

    def name(self, name: str, *, required: bool = False, octets: int = 998) -> str:
        """Read a line that must not read as something else: a file name, an address."""
        return self._string(name, spoof_problem, required=required, octets=octets)

    def _string(
        self, name: str, problem: Callable[[str], str], *, required: bool, octets: int | None
    ) -> str:
        value = self.values.get(name)
        if value is None or value == "":
            if required:
                self.wrong(name, MISSING)
            return ""
        if not isinstance(value, str):
            self.wrong(name, "Give it as text.")
            return ""
        found = problem(value)
        size = len(value.encode("utf-8", "replace")) if octets is not None else 0
        if not found and octets is not None and size > octets:
            found = f"It has {size} octets; at most {octets} are possible."
        if found:
            self.wrong(name, found)
            return ""
        return value

    def whole_number(self, name: str, *, least: int, most: int) -> int | None:
        """Read a whole number within bounds."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            self.wrong(name, f"Give a whole number from {least} to {most}.")
            return None
        return value

    def flag(self, name: str) -> bool:
        """Read true or false."""
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.wrong(name, "Give true or false.")
        return False

    def mapping(self, name: str, *, most: int) -> Mapping[str, object]:
        """Read an object of at most so many entries."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.wrong(name, "Give an object of names and texts.")
            return {}
        if len(value) > most:
            self.wrong(name, f"It has {len(value)} entries; at most {most} are possible.")
            return {}
        return value

    def items(self, name: str, *, most: int) -> Sequence[object]:
        """Read a list of at most so many items; one text counts as a list of one."""
        value = self.values.get(name)
        if value is None or value == "":
            return ()
        if isinstance(value, str):
            return (value,)
        if not isinstance(value, Sequence) or isinstance(value, bytes):
            self.wrong(name, "Give a list.")
            return ()
        if len(value) > most:
            self.wrong(name, f"It has {len(value)} items; at most {most} are possible.")
            return ()
        return value

    def parsed_items(self, name: str, parse: Callable[[str], T], *, most: int) -> tuple[T, ...]:
        """Read a list of texts, each turned into something by `parse` (raises AddressRefused)."""
        given = self.items(name, most=most)
        is_list = not isinstance(self.values.get(name), str)
        read = []
        for index, value in enumerate(given):
            place = f"{name}[{index}]" if is_list else name
            found = spoof_problem(value) if isinstance(value, str) else "Give it as text."
            if found or not isinstance(value, str):
                self.wrong(place, found)
                continue
            try:
                read.append(parse(value))
            except AddressRefused as error:
                self.wrong(place, str(error))
        return tuple(read)
