"""Access: what somebody may do with which source, and the one filter that every query goes through.

Does not know dispatches: the filter takes the column that holds a source.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import g
from flask_login import current_user
from sqlalchemy import ColumnElement, false, true

from dashboard.access.models import ApiToken, User
from dashboard.access.permissions import ROLES, Permission
from dashboard.database import is_one_of

# What every action needs besides its own permission.
ALWAYS = frozenset({Permission.DISPATCH_LIST, Permission.DISPATCH_READ})
_WITHOUT_READING = frozenset(
    {
        Permission.DISPATCH_LIST,
        Permission.DISPATCH_READ,
        Permission.DISPATCH_CREATE,
        Permission.ACTIVITY_READ,
        Permission.ACCESS_MANAGE,
        Permission.WORKER_CHECK,
        Permission.SCHEDULE_RUN,
        Permission.ROUTE_PAUSE,
    }
)


def _needed(permission: Permission) -> set[Permission]:
    return {permission} if permission in _WITHOUT_READING else {permission, *ALWAYS}


class NotAllowed(Exception):
    """Inside the scope, without the permission (403); the message names what is missing."""


class OutOfScope(Exception):
    """Not there, or not theirs (404): the two answers are the same."""


class SignInNeeded(Exception):
    """Nobody is signed in (401)."""


@dataclass(frozen=True, slots=True)
class Access:
    """Somebody, and what they may do.

    Attributes:
        actor: as history and activity name them: `user:<email>`, `token:<source>/<name>`, `cli:…`.
        everywhere: the permissions they have on all sources.
        by_source: the permissions they have on single sources, on top.
        source_id: the source of an API token; None for people.
    """

    actor: str
    everywhere: frozenset[Permission] = frozenset()
    by_source: Mapping[uuid.UUID, frozenset[Permission]] = field(default_factory=dict)
    source_id: uuid.UUID | None = None
    via: str = "page"

    @property
    def label(self) -> str:
        """The name as a person reads it."""
        return self.actor.partition(":")[2]

    def permissions(self, source_id: uuid.UUID | None) -> frozenset[Permission]:
        """Return what they may do with a source; with None: what they may do with all of them."""
        if source_id is None:
            return self.everywhere
        return self.everywhere | self.by_source.get(source_id, frozenset())

    def allows(self, permission: Permission, source_id: uuid.UUID | None = None) -> bool:
        """Return whether they may do it with this source, or somewhere at all if none is given."""
        needed = _needed(permission)
        if source_id is not None:
            return needed <= self.permissions(source_id)
        grants = [self.everywhere, *(self.permissions(one) for one in self.by_source)]
        return any(needed <= granted for granted in grants)

    def allows_everywhere(self, permission: Permission) -> bool:
        """Return whether they may do it with every source."""
        return _needed(permission) <= self.everywhere

    def visible_sources(self, permission: Permission) -> frozenset[uuid.UUID] | None:
        """Return the sources with which they may do it; None means all of them."""
        if self.allows_everywhere(permission):
            return None
        return frozenset(one for one in self.by_source if self.allows(permission, one))

    def sees(self, source_id: uuid.UUID) -> bool:
        """Return whether the dispatches of a source exist for them at all."""
        return Permission.DISPATCH_LIST in self.permissions(source_id)

    def require(self, permission: Permission, source_id: uuid.UUID) -> None:
        """Check a permission on a source.

        Raises:
            OutOfScope: when they may not even list it; nothing is given away.
            NotAllowed: when they may see it, and lack the permission.
        """
        if self.allows(permission, source_id):
            return
        if not self.sees(source_id):
            raise OutOfScope
        raise NotAllowed(f"You need the permission {permission.value}. Ask an administrator.")


def access_of_user(user: User) -> Access:
    """Return what a user may do, from the grants as they are now."""
    return from_grants(
        f"user:{user.email}", [(grant.source_id, ROLES[grant.role]) for grant in user.grants]
    )


def from_grants(
    actor: str, grants: Iterable[tuple[uuid.UUID | None, frozenset[Permission]]]
) -> Access:
    """Return the access that a set of grants gives; None as a source means all of them."""
    everywhere: frozenset[Permission] = frozenset()
    by_source: dict[uuid.UUID, frozenset[Permission]] = {}
    for source_id, permissions in grants:
        if source_id is None:
            everywhere |= permissions
        else:
            by_source[source_id] = by_source.get(source_id, frozenset()) | permissions
    return Access(actor, everywhere, by_source)


def access_of_token(token: ApiToken) -> Access:
    """Return what an API token may do: its permissions, on its source alone."""
    permissions = frozenset(Permission(one) for one in token.permissions)
    return Access(
        actor=f"token:{token.source.name}/{token.name or token.prefix}",
        by_source={token.source_id: permissions},
        source_id=token.source_id,
        via="api",
    )


def access_of_command() -> Access:
    """Return the access of whoever can run commands on this machine: everything."""
    return Access("cli:operator", frozenset(Permission), via="cli")


def current_access() -> Access:
    """Return the access of this request: of a person's session, or of an API token.

    Flask-Login asks `pages/sign_in.py` who it is, once in a request and only when it matters.

    Raises:
        SignInNeeded: when nobody is signed in.
    """
    access: Access | None = g.get("access") or getattr(current_user, "access", None)
    if access is None:
        raise SignInNeeded
    return access


def scope_filter(
    column: Any, access: Access, permission: Permission = Permission.DISPATCH_LIST
) -> ColumnElement[bool]:
    """Return the condition that a row belongs to a source on which the permission holds."""
    visible = access.visible_sources(permission)
    if visible is None:
        return true()
    return is_one_of(column, sorted(visible)) if visible else false()
