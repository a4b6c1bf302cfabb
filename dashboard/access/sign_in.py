"""Signing in with a password, signing out, changing the password. Single sign-on is elsewhere."""

import logging

from sqlalchemy import select

from dashboard.access import activity, sessions
from dashboard.access.models import User
from dashboard.access.passwords import (
    PasswordRefused,
    check_new,
    hash_password,
    is_outdated,
    is_possible,
    matches,
)
from dashboard.access.scope import Access
from dashboard.access.sessions import Browser, Person
from dashboard.access.throttle import Throttle
from dashboard.database import AnySession

logger = logging.getLogger("wireroom.access")

EMAIL_LIMIT = 254


class WrongPassword(Exception):
    """Email and password do not belong together; the words are the same for unknown users."""


def normalised_email(text: str) -> str:
    """Return the form of an email under which users are stored and counted."""
    return text.strip().casefold()


def sign_in(
    session: AnySession, throttle: Throttle, *, email: str, password: str, browser: Browser
) -> str:
    """Check a password and return the cookie of a new session. Commits.

    Raises:
        WrongPassword: unknown, inactive, without a password, or not this one.
        TooManyTries: this account or address has to wait; the password was not looked at.
    """
    account = normalised_email(email)
    possible = 0 < len(account) <= EMAIL_LIMIT and "\0" not in account
    if not possible or not is_possible(password):
        raise WrongPassword
    throttle.begin(account, browser.address)
    user = session.scalars(select(User).where(User.email == account, User.active)).first()
    if not matches(user.password_hash if user else "", password) or user is None:
        logger.info("sign-in refused")
        raise WrongPassword
    throttle.succeed(account, browser.address)
    if is_outdated(user.password_hash):
        user.password_hash = hash_password(password)
    cookie = sessions.start(session, user, browser)
    activity.record(session, Access(f"user:{user.email}"), "sign in", "user", str(user.id))
    session.commit()
    return cookie


def sign_out(session: AnySession, person: Person) -> None:
    """End the session of this browser. Commits."""
    sessions.revoke(session, person.user_id, person.session_id)
    activity.record(session, person.access, "sign out", "user", str(person.user_id))
    session.commit()


def change_password(
    session: AnySession, throttle: Throttle, person: Person, *, old: str, new: str, address: str
) -> None:
    """Set a new password; every other session of the user ends. Commits.

    Raises:
        WrongPassword: the old one is not right.
        PasswordRefused: the new one is not good enough, or the old one again.
        TooManyTries: too many wrong old ones.
    """
    throttle.begin(person.email, address)
    user = session.get_one(User, person.user_id)
    if not matches(user.password_hash, old):
        raise WrongPassword
    throttle.succeed(person.email, address)
    check_new(new, user.email)
    if new == old:
        raise PasswordRefused("This is the password you have. Choose another one.")
    user.password_hash = hash_password(new)
    ended = sessions.revoke(session, user.id, but=person.session_id)
    activity.record(
        session, person.access, "change password", "user", str(user.id), details={"ended": ended}
    )
    session.commit()
