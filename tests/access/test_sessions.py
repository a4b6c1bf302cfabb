"""Sessions: limits, revocation, rights as they are now, one statement for each request."""

from datetime import timedelta

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import delete, func, select, text, update
from sqlalchemy.orm import Session

from dashboard.access import sessions
from dashboard.access.models import Activity, Grant, User, UserSession
from dashboard.access.passwords import PasswordRefused
from dashboard.access.permissions import Role
from dashboard.access.sessions import Browser
from dashboard.access.sign_in import WrongPassword, change_password
from dashboard.access.throttle import Throttle
from tests.access.house import PASSWORD, add_user, knock, post, statements


@pytest.fixture
def administrator(rows: Session) -> User:
    return add_user(rows, "root@example.com", Role.ADMINISTRATOR)


@pytest.fixture
def ada(rows: Session, administrator: User, visitor: FlaskClient) -> User:
    """Ada, an operator, signed in."""
    user = add_user(rows)
    assert knock(visitor).status_code == 303
    return user


def is_in(visitor: FlaskClient) -> bool:
    return visitor.get("/room").status_code == 200


def age(rows: Session, column: str, hours: float) -> None:
    former = getattr(UserSession, column)
    rows.execute(update(UserSession).values({column: former - timedelta(hours=hours)}))
    rows.commit()


def test_who_it_is_costs_one_statement(house: Flask, visitor: FlaskClient, ada: User) -> None:
    with statements(house) as seen:
        assert visitor.get("/room").text == "user:ada@example.com"

    assert len(seen) == 1
    assert seen[0].startswith("SELECT")


def test_use_is_noted_once_a_minute(
    house: Flask, visitor: FlaskClient, ada: User, rows: Session
) -> None:
    age(rows, "seen_at", 0.1)
    with statements(house) as seen:
        for _ in range(3):
            assert is_in(visitor)

    assert [statement.split()[0] for statement in seen] == ["SELECT", "UPDATE"] + ["SELECT"] * 2
    assert rows.scalar(select(func.now() - UserSession.seen_at)).total_seconds() < 30


def test_only_the_hash_of_the_cookie_is_stored(
    visitor: FlaskClient, ada: User, rows: Session
) -> None:
    cookie = visitor.get_cookie("wireroom_session")
    assert cookie is not None
    assert cookie.http_only
    assert cookie.same_site == "Lax"
    stored = rows.execute(text('SELECT to_json(s)::text FROM "session" s')).scalars().all()
    assert cookie.value not in " ".join(stored)


@pytest.mark.parametrize(
    ("column", "hours", "stays"),
    [
        ("seen_at", 11.9, True),
        ("seen_at", 12.1, False),
        ("created_at", 7 * 24 - 0.1, True),
        ("created_at", 7 * 24 + 0.1, False),
    ],
)
def test_a_session_ends_by_itself(
    visitor: FlaskClient, ada: User, rows: Session, *, column: str, hours: float, stays: bool
) -> None:
    age(rows, column, hours)

    assert is_in(visitor) is stays


@pytest.mark.parametrize(("hours", "stays"), [(1.9, True), (2.1, False)])
def test_an_administrator_is_signed_out_sooner(
    visitor: FlaskClient, administrator: User, rows: Session, *, hours: float, stays: bool
) -> None:
    knock(visitor, email="root@example.com")
    age(rows, "seen_at", hours)

    assert is_in(visitor) is stays


def test_a_revoked_session_is_out_at_the_next_request(
    visitor: FlaskClient, ada: User, rows: Session
) -> None:
    assert is_in(visitor)

    assert sessions.revoke(rows, ada.id) == 1
    rows.commit()

    assert not is_in(visitor)


def test_rights_that_are_taken_are_gone_at_the_next_request(
    visitor: FlaskClient, ada: User, rows: Session
) -> None:
    assert post(visitor, "/room/act").status_code == 200

    rows.execute(update(Grant).where(Grant.user_id == ada.id).values(role=Role.VIEWER))
    rows.commit()
    refused = post(visitor, "/room/act")

    assert refused.status_code == 403
    assert "dispatch:retry" in refused.text
    rows.execute(delete(Grant).where(Grant.user_id == ada.id))
    rows.commit()
    assert visitor.get("/room").status_code == 403


def test_a_user_who_is_switched_off_is_out_at_the_next_request(
    visitor: FlaskClient, ada: User, rows: Session
) -> None:
    rows.execute(update(User).where(User.id == ada.id).values(active=False))
    rows.commit()

    assert not is_in(visitor)
    assert knock(visitor).status_code == 401


def test_the_list_shows_what_is_open_and_a_single_one_can_be_ended(
    house: Flask, visitor: FlaskClient, ada: User, rows: Session
) -> None:
    other = house.test_client()
    knock(other, address="198.51.100.7", headers={"User-Agent": "Other browser"})
    found = sessions.open_sessions(rows, ada.id)
    assert [one.address for one in found] == ["198.51.100.7", "192.0.2.1"]
    assert found[0].user_agent == "Other browser"

    sessions.revoke(rows, ada.id, found[0].id)
    rows.commit()

    assert not is_in(other)
    assert is_in(visitor)
    assert len(sessions.open_sessions(rows, ada.id)) == 1


def test_a_new_password_ends_the_other_sessions(
    house: Flask, visitor: FlaskClient, ada: User, rows: Session
) -> None:
    other = house.test_client()
    knock(other)
    cookie = visitor.get_cookie("wireroom_session")
    assert cookie is not None
    person = sessions.find_person(rows, cookie.value)
    assert person is not None
    throttle: Throttle = house.extensions["wireroom_throttle"]

    def change(old: str, new: str) -> None:
        change_password(rows, throttle, person, old=old, new=new, address="192.0.2.1")

    with pytest.raises(WrongPassword):
        change("wrong old password", "tractor lamp seven")
    with pytest.raises(PasswordRefused):
        change(PASSWORD, PASSWORD)
    with pytest.raises(PasswordRefused):
        change(PASSWORD, "short")
    change(PASSWORD, "tractor lamp seven")

    assert is_in(visitor)
    assert not is_in(other)
    assert knock(other).status_code == 401
    assert knock(other, "tractor lamp seven").status_code == 303
    lines = rows.scalars(select(Activity).where(Activity.action == "change password")).all()
    assert [(line.actor, line.details) for line in lines] == [
        ("user:ada@example.com", {"ended": 1})
    ]


def test_the_former_session_of_a_browser_ends_with_a_new_one(rows: Session, ada: User) -> None:
    first = sessions.start(rows, ada, Browser())
    second = sessions.start(rows, ada, Browser(cookie=first))
    rows.flush()

    assert sessions.find_person(rows, first) is None
    assert sessions.find_person(rows, second) is not None


@pytest.mark.parametrize("cookie", ["x", "\0", "a" * 5000, "\ud800"])
def test_no_cookie_breaks_it(rows: Session, cookie: str) -> None:
    assert sessions.find_person(rows, cookie) is None
