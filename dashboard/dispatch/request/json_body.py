"""Reads an untrusted JSON body: bounded in size and depth, numbers finite, texts storable. Pure."""

import json
import math
import re
from collections.abc import Mapping

from dashboard.dispatch.request.fields import text_problem
from dashboard.dispatch.request.requests import InvalidRequest, Problem

TEXT_OCTETS = 5 * 1024 * 1024
DEPTH = 20
_FILE = re.compile(r"(messages\[\d+\]\.)?(attachments\[\d+\]\.)?content")
_OTHER_OCTETS = 8  # what a number, a bracket or a word counts as


def parse_object(body: bytes) -> dict[str, object]:
    """Return the JSON object that a body holds.

    Raises:
        InvalidRequest: naming the field, or `body` where it is no JSON object at all.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise _invalid("body", f"It is nested more than {DEPTH} deep.") from None
    except ValueError as error:
        raise _invalid("body", f"It is not valid JSON in UTF-8: {error}") from None
    if not isinstance(value, dict):
        raise _invalid("body", "Give one JSON object.")
    check_bounds(value)
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def check_bounds(value: Mapping[str, object]) -> None:
    """Check depth, size, numbers and texts; the content of attachments has limits of its own.

    Raises:
        InvalidRequest: naming the first field that is out of bounds.
    """
    octets = 0
    pending: list[tuple[str, int, object]] = [("", 0, value)]
    while pending:
        path, depth, one = pending.pop()
        if depth > DEPTH:
            raise _invalid(path[:100], f"It is nested more than {DEPTH} deep.")
        octets += _OTHER_OCTETS + _check_leaf(path, one)
        if octets > TEXT_OCTETS:
            raise _invalid(
                path.split(".")[0].split("[")[0] or "body",
                f"With it the message is over {TEXT_OCTETS} octets, attachments not counted.",
            )
        pending += [(place, depth + 1, child) for place, child in _children(path, one)]


def _check_leaf(path: str, value: object) -> int:
    """Return the size of a text; raise for a text or number that cannot be stored."""
    if isinstance(value, float) and not math.isfinite(value):
        raise _invalid(path, "It is a number without end; give a finite one.")
    if not isinstance(value, str):
        return 0
    if problem := text_problem(value):
        raise _invalid(path, problem)
    return 0 if _FILE.fullmatch(path) else len(value.encode())


def _children(path: str, value: object) -> list[tuple[str, object]]:
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str) or text_problem(name) or len(name) > 1000:
                raise _invalid(path or "body", "It has a name that cannot be stored.")
        return [(f"{path}.{name}" if path else name, value[name]) for name in value]
    if isinstance(value, list | tuple):
        return [(f"{path}[{index}]", one) for index, one in enumerate(value)]
    return []


def _invalid(field: str, message: str) -> InvalidRequest:
    return InvalidRequest([Problem(field or "body", message)])
