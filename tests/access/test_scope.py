"""Access as a value: every role and permission, here, elsewhere and everywhere."""

import uuid

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.access.models import Source
from dashboard.access.permissions import ROLES, Permission, Role
from dashboard.access.scope import (
    Access,
    NotAllowed,
    OutOfScope,
    access_of_command,
    from_grants,
    scope_filter,
)

HERE, ELSEWHERE = uuid.uuid4(), uuid.uuid4()


@pytest.mark.parametrize("role", Role)
@pytest.mark.parametrize("permission", Permission)
def test_a_role_on_one_source_gives_nothing_on_another(role: Role, permission: Permission) -> None:
    access = from_grants("user:ada", [(HERE, ROLES[role])])

    assert access.allows(permission, HERE) == (permission in ROLES[role])
    assert not access.allows(permission, ELSEWHERE)
    assert not access.allows_everywhere(permission)
    with pytest.raises(OutOfScope):
        access.require(permission, ELSEWHERE)
    if permission in ROLES[role]:
        access.require(permission, HERE)
    else:
        with pytest.raises(NotAllowed, match=permission.value):
            access.require(permission, HERE)


def test_an_action_needs_list_and_read_too() -> None:
    only = from_grants("token:a/b", [(HERE, frozenset({Permission.DISPATCH_RETRY}))])

    assert not only.allows(Permission.DISPATCH_RETRY, HERE)
    assert only.visible_sources(Permission.DISPATCH_RETRY) == frozenset()


def test_grants_add_up_over_sources() -> None:
    access = from_grants("user:ada", [(None, ROLES[Role.VIEWER]), (HERE, ROLES[Role.OPERATOR])])

    assert access.visible_sources(Permission.DISPATCH_LIST) is None
    assert access.visible_sources(Permission.DISPATCH_RETRY) == {HERE}
    assert access.allows(Permission.DISPATCH_RETRY)
    with pytest.raises(NotAllowed):
        access.require(Permission.DISPATCH_RETRY, ELSEWHERE)


def test_without_grants_nothing_exists() -> None:
    nobody = from_grants("user:ada", [])

    assert not any(nobody.allows(permission) for permission in Permission)
    assert nobody.visible_sources(Permission.DISPATCH_LIST) == frozenset()


@pytest.mark.parametrize(
    ("access", "names"),
    [
        (access_of_command(), ["a", "b", "c"]),
        (from_grants("user:x", [(None, ROLES[Role.VIEWER])]), ["a", "b", "c"]),
        (from_grants("user:x", []), []),
    ],
)
def test_the_filter_is_what_the_access_sees(
    rows: Session, access: Access, names: list[str]
) -> None:
    rows.add_all(Source(name=name) for name in "abc")
    rows.flush()

    found = rows.scalars(
        select(Source.name).where(scope_filter(Source.id, access)).order_by(Source.name)
    )

    assert list(found) == names


def test_the_filter_of_two_sources_is_one_parameter(rows: Session) -> None:
    sources = [Source(name=name) for name in "abc"]
    rows.add_all(sources)
    rows.flush()
    viewer = ROLES[Role.VIEWER]
    access = from_grants("user:x", [(sources[0].id, viewer), (sources[2].id, viewer)])

    query = select(Source.name).where(scope_filter(Source.id, access)).order_by(Source.name)

    assert list(rows.scalars(query)) == ["a", "c"]
    assert len(query.compile().params) == 1
    acting = scope_filter(Source.id, access, Permission.DISPATCH_RETRY)
    assert list(rows.scalars(select(Source.name).where(acting))) == []
