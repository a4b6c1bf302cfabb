"""The kinds of arguments that a shell may hand over broken: names, and numbers of days."""

import click
from typing_extensions import override

from dashboard.dispatch.request.fields import spoof_problem

_LONGEST_NAME = 200
MOST_DAYS = 3650


class Name(click.ParamType[str]):
    """A name that pages and logs show: one line, of characters that can be stored.

    Octets that are no UTF-8 come from the shell as halves of surrogate pairs.
    """

    name = "text"

    @override
    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name; raises click's BadParameter, which says what is wrong with it."""
        if problem := spoof_problem(value):
            self.fail(problem, param, ctx)
        if len(value) > _LONGEST_NAME:
            self.fail(f"It has {len(value)} characters; at most {_LONGEST_NAME}.", param, ctx)
        return value


class Days(click.ParamType[float]):
    """A number of days from now on, more than none."""

    name = "days"

    @override
    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; raises click's BadParameter when no time lies that far away."""
        try:
            days = float(value)
        except ValueError:
            days = 0
        if not 0 < days <= MOST_DAYS:  # not a number compares as false
            self.fail(f"Give a number of days above 0, at most {MOST_DAYS}.", param, ctx)
        return days


NAME = Name()
DAYS = Days()
