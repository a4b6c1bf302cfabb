"""Users and grants: add, give, take, switch off. There is always an administrator left."""

import uuid

from email_validator import EmailNotValidError, validate_email
from sqlalchemy import func, select

from dashboard.access import activity, sessions
from dashboard.access.models import Grant, Source, User
from dashboard.access.permissions import Permission, Role
from dashboard.access.scope import Access, NotAllowed
from dashboard.database import AnySession


class EmailRefused(ValueError):
    """An email cannot be a user's; the message says why."""


class LastAdministrator(Exception):
    """It would leave nobody who can manage access."""

    def __init__(self) -> None:
        super().__init__(
            "This is the last administrator, so nothing was changed. Make another one first."
        )


def checked_email(text: str) -> str:
    """Return the form of an email under which a user is stored.

    Raises:
        EmailRefused: it is not an address.
    """
    try:
        found = validate_email(text.strip(), check_deliverability=False, test_environment=True)
    except EmailNotValidError as error:
        raise EmailRefused(f"This is not an email address: {error}") from None
    return found.normalized.casefold()


def find_user(session: AnySession, email: str) -> User | None:
    """Return the user of this email."""
    return session.scalars(select(User).where(User.email == email.strip().casefold())).first()


def find_source(session: AnySession, name: str) -> Source | None:
    """Return the source of this name."""
    return session.scalars(select(Source).where(Source.name == name)).first()


def make_source(session: AnySession, name: str) -> Source:
    """Add a source. Does not commit."""
    source = Source(name=name)
    session.add(source)
    session.flush()
    return source


def add_user(session: AnySession, access: Access, email: str, name: str = "") -> User:
    """Add a user without rights and without a password. Does not commit.

    Raises:
        EmailRefused: not an address, or somebody has it already.
        NotAllowed: only who manages access everywhere may.
    """
    _require_management(access)
    address = checked_email(email)
    if find_user(session, address):
        raise EmailRefused("There is a user with this email already.")
    user = User(email=address, name=name)
    session.add(user)
    session.flush()
    activity.record(session, access, "add user", "user", str(user.id))
    return user


def give(
    session: AnySession, access: Access, user: User, role: Role, source_id: uuid.UUID | None
) -> bool:
    """Give a user a role on a source, or on all with None. Does not commit.

    Returns:
        whether that was new.
    """
    _require_management(access)
    if _grant(session, user, role, source_id):
        return False
    session.add(Grant(user_id=user.id, role=role, source_id=source_id))
    activity.record(
        session, access, "give role", "user", str(user.id), source_id, details={"role": role.value}
    )
    session.flush()
    return True


def take(
    session: AnySession, access: Access, user: User, role: Role, source_id: uuid.UUID | None
) -> bool:
    """Take a role from a user, from their next request on. Does not commit.

    Raises:
        LastAdministrator: nothing was changed.
    """
    _require_management(access)
    grant = _grant(session, user, role, source_id)
    if grant is None:
        return False
    if role is Role.ADMINISTRATOR and source_id is None:
        _require_another(session, user)
    session.delete(grant)
    activity.record(
        session, access, "take role", "user", str(user.id), source_id, details={"role": role.value}
    )
    session.flush()
    return True


def switch_off(session: AnySession, access: Access, user: User) -> None:
    """Let a user sign in no more, and end their sessions. Does not commit.

    Raises:
        LastAdministrator: nothing was changed.
    """
    _require_management(access)
    _require_another(session, user)
    user.active = False
    ended = sessions.revoke(session, user.id)
    activity.record(
        session, access, "switch user off", "user", str(user.id), details={"ended": ended}
    )


def _grant(
    session: AnySession, user: User, role: Role, source_id: uuid.UUID | None
) -> Grant | None:
    return session.scalars(
        select(Grant).where(
            Grant.user_id == user.id,
            Grant.role == role,
            Grant.source_id.is_not_distinct_from(source_id),
        )
    ).first()


def _require_another(session: AnySession, user: User) -> None:
    # The lock makes two who remove each other go one after the other.
    session.execute(select(Grant.id).where(Grant.role == Role.ADMINISTRATOR).with_for_update())
    others = session.scalar(
        select(func.count())
        .select_from(Grant)
        .join(User)
        .where(
            Grant.role == Role.ADMINISTRATOR,
            Grant.source_id.is_(None),
            User.active,
            User.id != user.id,
        )
    )
    if not others:
        raise LastAdministrator


def _require_management(access: Access) -> None:
    if not access.allows_everywhere(Permission.ACCESS_MANAGE):
        raise NotAllowed(
            f"You need the permission {Permission.ACCESS_MANAGE.value} on all sources."
            " Ask an administrator."
        )
