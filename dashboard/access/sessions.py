"""Sessions: one row for each signed-in browser; the browser has a random cookie, the row its hash.

Limits: 12 hours without use (2 for administrators), 7 days in all. Signing in always makes a new
one; a password change ends the others. Rights are read with the session, on each request.
"""

import hashlib
import secrets
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, func, select, update

from dashboard.access.models import Grant, User, UserSession
from dashboard.access.permissions import ROLES, Permission
from dashboard.access.scope import Access, from_grants
from dashboard.database import AnySession

IDLE = timedelta(hours=12)
IDLE_ADMINISTRATOR = timedelta(hours=2)
ABSOLUTE = timedelta(days=7)
SEEN_EVERY = timedelta(minutes=1)
_USER_AGENT_LIMIT = 300


@dataclass(frozen=True, slots=True)
class Browser:
    """Where a sign-in came from, as its owner sees it in the list of sessions."""

    address: str = ""
    user_agent: str = ""
    cookie: str = ""


@dataclass(frozen=True, slots=True)
class Person:
    """Who is signed in, for one request; Flask-Login's `current_user`."""

    user_id: uuid.UUID
    session_id: uuid.UUID
    email: str
    name: str
    theme: str
    time_zone: str
    access: Access
    preferences: Mapping[str, Any] = field(default_factory=dict)

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def get_id(self) -> str:
        """Return the user's id, as Flask-Login asks for it."""
        return str(self.user_id)


def start(session: AnySession, user: User, browser: Browser) -> str:
    """Add a session and return its cookie; the browser's former session ends. Does not commit."""
    if browser.cookie:
        session.execute(
            update(UserSession)
            .where(
                UserSession.token_hash == _hash(browser.cookie), UserSession.revoked_at.is_(None)
            )
            .values(revoked_at=func.statement_timestamp())
            .execution_options(synchronize_session=False)
        )
    cookie = secrets.token_urlsafe(32)
    session.add(
        UserSession(
            token_hash=_hash(cookie),
            user_id=user.id,
            address=browser.address,
            user_agent=browser.user_agent[:_USER_AGENT_LIMIT].replace("\0", ""),
        )
    )
    return cookie


def find_person(session: AnySession, cookie: str) -> Person | None:
    """Return who has this cookie, with their rights as they are now: one statement.

    At most once a minute a second one notes that the session is in use, and commits that.
    """
    now = func.statement_timestamp()
    rows = session.execute(
        select(
            UserSession.id.label("session_id"),
            (now - UserSession.seen_at).label("unused"),
            User.id.label("user_id"),
            User.email,
            User.name,
            User.theme,
            User.time_zone,
            User.preferences,
            Grant.role,
            Grant.source_id,
        )
        .join(User, User.id == UserSession.user_id)
        .outerjoin(Grant, Grant.user_id == User.id)
        .where(
            UserSession.token_hash == _hash(cookie),
            UserSession.revoked_at.is_(None),
            UserSession.seen_at > now - IDLE,
            UserSession.created_at > now - ABSOLUTE,
            User.active,
        )
    ).all()
    if not rows:
        return None
    person = _person(rows[0], rows)
    unused: timedelta = rows[0].unused
    if unused > IDLE_ADMINISTRATOR and person.access.allows(Permission.ACCESS_MANAGE):
        return None
    if unused > SEEN_EVERY:
        _note_use(session, person.session_id)
    return person


def _person(first: Row[Any], rows: list[Row[Any]] | Any) -> Person:
    grants = [(row.source_id, ROLES[row.role]) for row in rows if row.role is not None]
    return Person(
        user_id=first.user_id,
        session_id=first.session_id,
        email=first.email,
        name=first.name,
        theme=first.theme,
        time_zone=first.time_zone,
        preferences=first.preferences,
        access=from_grants(f"user:{first.email}", grants),
    )


def _note_use(session: AnySession, session_id: uuid.UUID) -> None:
    # At the start of a request, so that this commit holds nothing else.
    session.execute(
        update(UserSession)
        .where(UserSession.id == session_id)
        .values(seen_at=func.statement_timestamp())
        .execution_options(synchronize_session=False)
    )
    session.commit()


@dataclass(frozen=True, slots=True)
class OpenSession:
    """One line of the list of a user's sessions."""

    id: uuid.UUID
    address: str
    user_agent: str
    created_at: datetime
    seen_at: datetime


def open_sessions(session: AnySession, user_id: uuid.UUID) -> list[OpenSession]:
    """Return a user's sessions that are not over, the one used last first."""
    now = func.statement_timestamp()
    rows = session.scalars(
        select(UserSession)
        .where(
            UserSession.user_id == user_id,
            UserSession.revoked_at.is_(None),
            UserSession.seen_at > now - IDLE,
            UserSession.created_at > now - ABSOLUTE,
        )
        .order_by(UserSession.seen_at.desc())
    )
    return [
        OpenSession(row.id, row.address, row.user_agent, row.created_at, row.seen_at)
        for row in rows
    ]


def revoke(
    session: AnySession,
    user_id: uuid.UUID,
    session_id: uuid.UUID | None = None,
    *,
    but: uuid.UUID | None = None,
) -> int:
    """End one session of a user, or all of them but one; return how many. Does not commit."""
    statement = update(UserSession).where(
        UserSession.user_id == user_id, UserSession.revoked_at.is_(None)
    )
    if session_id is not None:
        statement = statement.where(UserSession.id == session_id)
    if but is not None:
        statement = statement.where(UserSession.id != but)
    result: Any = session.execute(
        statement.values(revoked_at=func.statement_timestamp()).execution_options(
            synchronize_session=False
        )
    )
    return int(result.rowcount)


def _hash(cookie: str) -> str:
    # A cookie has 256 random bits, so that a fast hash is as good as a slow one.
    return hashlib.sha256(cookie.encode("utf-8", "replace")).hexdigest()
