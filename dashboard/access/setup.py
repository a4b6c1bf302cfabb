"""One-time links: the setup link makes the first administrator, others let a user set a password.

Only a hash of a link is stored. A new link ends the older ones of its kind and user.
"""

import hashlib
import secrets
from datetime import timedelta

from sqlalchemy import delete, exists, func, select, text, update

from dashboard.access import activity, sessions
from dashboard.access.models import Grant, SetupLink, User
from dashboard.access.passwords import check_new, hash_password
from dashboard.access.permissions import Role
from dashboard.access.scope import Access
from dashboard.access.sessions import Browser
from dashboard.access.users import checked_email
from dashboard.database import AnySession

VALID_FOR = timedelta(hours=24)
SETUP = "setup"
INVITATION = "invitation"
_LOCK = 7_305_001  # any number that nothing else in this database locks


class LinkInvalid(Exception):
    """The link is unknown, was used, is too old, or is no longer needed."""


def administrator_exists(session: AnySession) -> bool:
    """Return whether somebody who is active may manage access everywhere."""
    grants = (
        select(Grant.id)
        .join(User)
        .where(Grant.role == Role.ADMINISTRATOR, Grant.source_id.is_(None), User.active)
    )
    return bool(session.scalar(select(exists(grants))))


def setup_link(session: AnySession, base_url: str) -> str:
    """Make the link with which the first administrator is made, valid for 24 hours. Commits.

    Returns:
        the URL; nothing if there is an administrator.
    """
    _lock(session)
    link = ""
    if not administrator_exists(session):
        link = f"{base_url.rstrip('/')}/setup/{_new_token(session, SETUP)}"
    session.commit()
    return link


def password_link(session: AnySession, access: Access, user: User, base_url: str) -> str:
    """Make the link with which a user sets a password, valid for 24 hours. Commits."""
    token = _new_token(session, INVITATION, user.email)
    activity.record(session, access, "make password link", "user", str(user.id))
    session.commit()
    return f"{base_url.rstrip('/')}/invitation/{token}"


def find_link(session: AnySession, purpose: str, token: str) -> SetupLink:
    """Return an open link, locked until the transaction ends.

    Raises:
        LinkInvalid: there is none.
    """
    link = session.scalars(
        select(SetupLink)
        .where(
            SetupLink.token_hash == _hash(token),
            SetupLink.purpose == purpose,
            SetupLink.used_at.is_(None),
            SetupLink.expires_at > func.clock_timestamp(),
        )
        .with_for_update()
    ).first()
    if link is None or (purpose == SETUP and administrator_exists(session)):
        raise LinkInvalid
    return link


def make_administrator(
    session: AnySession, token: str, *, email: str, password: str, browser: Browser
) -> str:
    """Make the first administrator, use the link up, and return the cookie. Commits.

    Raises:
        LinkInvalid: see `find_link`.
        EmailRefused, PasswordRefused: with a sentence for the form; the link stays open.
    """
    _lock(session)
    link = find_link(session, SETUP, token)
    address = checked_email(email)
    check_new(password, address)
    user = session.scalars(select(User).where(User.email == address)).first() or User(email=address)
    user.password_hash = hash_password(password)
    user.active = True
    session.add(user)
    session.flush()
    session.add(Grant(user_id=user.id, role=Role.ADMINISTRATOR))
    return _use(session, link, user, browser, action="set up")


def accept_invitation(session: AnySession, token: str, *, password: str, browser: Browser) -> str:
    """Set the invited user's password, end their sessions, and return the cookie. Commits.

    Raises:
        LinkInvalid: see `find_link`; also when the user is not active any more.
        PasswordRefused: with a sentence for the form; the link stays open.
    """
    link = find_link(session, INVITATION, token)
    user = session.scalars(select(User).where(User.email == link.email, User.active)).first()
    if user is None:
        raise LinkInvalid
    check_new(password, user.email)
    user.password_hash = hash_password(password)
    sessions.revoke(session, user.id)
    return _use(session, link, user, browser, action="set password by link")


def _use(session: AnySession, link: SetupLink, user: User, browser: Browser, *, action: str) -> str:
    session.execute(
        update(SetupLink)
        .where(SetupLink.id == link.id)
        .values(used_at=func.clock_timestamp())
        .execution_options(synchronize_session=False)
    )
    cookie = sessions.start(session, user, browser)
    activity.record(session, Access(f"user:{user.email}"), action, "user", str(user.id))
    session.commit()
    return cookie


def _new_token(session: AnySession, purpose: str, email: str = "") -> str:
    session.execute(
        delete(SetupLink).where(
            SetupLink.purpose == purpose, SetupLink.email == email, SetupLink.used_at.is_(None)
        )
    )
    token = secrets.token_urlsafe(32)
    session.add(
        SetupLink(
            token_hash=_hash(token),
            purpose=purpose,
            email=email,
            expires_at=func.clock_timestamp() + VALID_FOR,
        )
    )
    return token


def _lock(session: AnySession) -> None:
    """Let two who set up at the same moment go one after the other."""
    session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
