"""Takes a batch apart into what can be accepted and what cannot, and puts the answers in order."""

from collections.abc import Iterator, Mapping, Sequence

from dashboard.dispatch.request.accept import Ask
from dashboard.dispatch.request.requests import InvalidRequest
from dashboard.pages.api_problems import body_of

Result = Mapping[str, object]


def split(
    judged: Sequence[Ask | InvalidRequest],
) -> tuple[list[Ask], dict[int, Result]]:
    """Return the valid requests in order, and the answers of the others by position."""
    asks = [one for one in judged if isinstance(one, Ask)]
    wrong: dict[int, Result] = {
        position: {"error": body_of(one)}
        for position, one in enumerate(judged)
        if isinstance(one, InvalidRequest)
    }
    return asks, wrong


def in_order(answers: Sequence[Result], wrong: Mapping[int, Result]) -> list[Result]:
    """Return the answers with those of the wrong requests at their positions."""
    rest: Iterator[Result] = iter(answers)
    count = len(answers) + len(wrong)
    return [wrong[position] if position in wrong else next(rest) for position in range(count)]
