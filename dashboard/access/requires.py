"""`@requires(permission)` and `@public(why)`: every route carries one; a test walks them.

The decorator is the first gate only; the use case checks the permission on the very source.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from dashboard.access.permissions import Permission
from dashboard.access.scope import NotAllowed, current_access

P = ParamSpec("P")
R = TypeVar("R")
View = Callable[P, R]


def requires(permission: Permission) -> Callable[[View[P, R]], View[P, R]]:
    """Let a view run only for somebody who has this permission on some source.

    The wrapped view raises SignInNeeded or NotAllowed; `pages/errors.py` turns them into answers.
    """

    def decorate(view: View[P, R]) -> View[P, R]:
        @wraps(view)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            if not current_access().allows(permission):
                raise NotAllowed(
                    f"You need the permission {permission.value}. Ask an administrator."
                )
            return view(*args, **kwargs)

        vars(guarded)["permission"] = permission
        return guarded

    return decorate


def public(why: str) -> Callable[[View[P, R]], View[P, R]]:
    """Mark a view that anybody may call, and say why that is right."""

    def decorate(view: View[P, R]) -> View[P, R]:
        vars(view)["public"] = why
        return view

    return decorate
