"""The doors as a browser and an attacker meet them."""

import re
import time
from dataclasses import replace

import pytest
from argon2 import PasswordHasher
from flask import Flask
from flask.testing import FlaskClient
from redis import Redis
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from dashboard.access import setup, users
from dashboard.access.counters import RedisCounters, SteadyCounters
from dashboard.access.models import Activity, User
from dashboard.access.passwords import matches
from dashboard.access.permissions import Role
from dashboard.access.scope import access_of_command
from dashboard.access.throttle import Limit, Limits, Throttle
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings
from tests.access.house import PASSWORD, add_user, knock, post, token_of
from tests.access.house_fixtures import _house, house, rows, visitor
from tests.access.test_next_page import HOSTILE

__all__ = ["_house", "house", "rows", "visitor"]

WRONG = "some wrong password"


@pytest.fixture
def ada(rows: Session) -> User:
    """An administrator, so that the doors are open; nobody is signed in."""
    return add_user(rows, role=Role.ADMINISTRATOR)


def cookie_of(client: FlaskClient) -> str:
    found = client.get_cookie("wireroom_session")
    return found.value if found else ""


def test_signing_in_and_out(visitor: FlaskClient, ada: User, rows: Session) -> None:
    asked = visitor.get("/room?a=1")
    assert (asked.status_code, asked.location) == (303, "/login?next=%2Froom%3Fa%3D1")
    page = visitor.get(asked.location)
    fields = {"email": " Ada@Example.com", "password": PASSWORD, "next": "/room?a=1"}

    answer = visitor.post("/login", data={"csrf_token": token_of(page), **fields})

    assert (answer.status_code, answer.location) == (303, "/room?a=1")
    assert visitor.get("/room").text == "user:ada@example.com"
    assert visitor.get("/login?next=/room").location == "/room"
    out = post(visitor, "/logout")
    assert out.location == "/login"
    assert cookie_of(visitor) == ""
    assert visitor.get("/room").status_code == 303
    lines = rows.scalars(select(Activity).order_by(Activity.id)).all()
    assert [line.action for line in lines] == ["sign in", "sign out"]
    assert lines[0].address == "127.0.0.1"


def test_a_copied_cookie_is_worth_nothing_after_signing_out(
    house: Flask, visitor: FlaskClient, ada: User
) -> None:
    knock(visitor)
    thief = house.test_client()
    thief.set_cookie("wireroom_session", cookie_of(visitor))
    assert thief.get("/room").status_code == 200

    post(visitor, "/logout")

    assert thief.get("/room").status_code == 303


def test_a_session_that_somebody_planted_is_not_signed_in(
    house: Flask, visitor: FlaskClient, ada: User
) -> None:
    visitor.set_cookie("wireroom_session", "planted-by-an-attacker")
    attacker = house.test_client()
    attacker.set_cookie("wireroom_session", "planted-by-an-attacker")

    knock(visitor)

    assert cookie_of(visitor) not in ("", "planted-by-an-attacker")
    assert attacker.get("/room").status_code == 303
    before = cookie_of(visitor)
    knock(visitor)
    attacker.set_cookie("wireroom_session", before)
    assert attacker.get("/room").status_code == 303


def test_a_remember_cookie_of_another_application_signs_nobody_out(
    visitor: FlaskClient, ada: User
) -> None:
    knock(visitor)
    visitor.set_cookie("remember_token", "5|abcdef")

    assert visitor.get("/room").status_code == 200


@pytest.mark.parametrize("value", HOSTILE)
def test_next_never_leads_away(visitor: FlaskClient, ada: User, value: str) -> None:
    assert 'name="next" value="/"' in visitor.get("/login", query_string={"next": value}).text

    answer = knock(visitor, next_page=value)

    assert (answer.status_code, answer.location) == (303, "/")
    assert visitor.get("/login", query_string={"next": value}).location == "/"


@pytest.mark.parametrize("value", HOSTILE)
def test_next_never_leads_away_as_it_stands_in_the_address(
    visitor: FlaskClient, ada: User, value: str
) -> None:
    knock(visitor)

    answer = visitor.get(f"/login?next={value.encode('utf-8').decode('latin-1')}")

    assert (answer.status_code, answer.location) == (303, "/")


def test_unknown_users_and_wrong_passwords_get_the_same_words(
    visitor: FlaskClient, ada: User, rows: Session
) -> None:
    def answer(email: str) -> tuple[int, str]:
        page = knock(visitor, WRONG, email=email)
        text = re.sub(r'(value|data-now)="[^"]*"', "", page.text)
        return page.status_code, text

    known, unknown = answer("ada@example.com"), answer("eve@example.com")
    rows.execute(update(User).values(password_hash=""))
    rows.commit()

    assert known == unknown == answer("ada@example.com")
    assert known[0] == 401
    assert "Email or password is wrong." in known[1]


@pytest.mark.parametrize("password", ["\0", "with \0 inside it", "a" * 1_000_000, "", "a" * 2000])
@pytest.mark.parametrize("field", ["password", "email"])
def test_impossible_input_is_refused_fast(
    visitor: FlaskClient, ada: User, field: str, password: str
) -> None:
    fields = {"email": "ada@example.com", "password": PASSWORD, field: password}
    token = token_of(visitor.get("/login"))
    started = time.perf_counter()

    answer = visitor.post("/login", data={"csrf_token": token, **fields})

    assert answer.status_code in (400, 401)
    assert time.perf_counter() - started < 0.5


def test_a_form_of_more_than_a_megabyte_is_refused_with_400(
    visitor: FlaskClient, ada: User
) -> None:
    answer = visitor.post("/login", data={"password": "a" * 3_000_000})

    assert answer.status_code == 400


def test_weaker_hashes_are_made_again_when_their_owner_signs_in(
    visitor: FlaskClient, ada: User, rows: Session
) -> None:
    weak = PasswordHasher(memory_cost=8 * 1024).hash(PASSWORD)
    rows.execute(update(User).values(password_hash=weak))
    rows.commit()

    assert knock(visitor).status_code == 303

    stored = rows.scalar(select(User.password_hash))
    assert stored != weak
    assert matches(stored, PASSWORD)


def test_200_wrong_passwords_from_one_address_do_not_lock_the_owner_out(
    house: Flask, visitor: FlaskClient, ada: User
) -> None:
    answers = []
    for number in range(200):
        forged = {"X-Forwarded-For": f"203.0.113.{number}", "X-Real-IP": f"203.0.113.{number}"}
        answers.append(knock(visitor, WRONG, address="198.51.100.66", headers=forged))

    assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 190
    assert 800 < int(answers[-1].headers["Retry-After"]) <= 901
    assert knock(visitor, address="198.51.100.66").status_code == 429  # even the right one
    assert knock(house.test_client(), address="192.0.2.1").status_code == 303


def test_200_wrong_passwords_from_many_addresses_do_not_lock_the_owner_out(
    house: Flask, settings: Settings, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = 3.0
    limits = replace(Limits(), account=Limit(20, 900), turn_seconds=turn)
    throttle = Throttle(RedisCounters(redis_connection(settings)), "key", limits)
    monkeypatch.setitem(house.extensions, "wireroom_throttle", throttle)
    assert knock(house.test_client(), address="192.0.2.1").status_code == 303
    attacker = house.test_client()
    started = time.monotonic()

    answers = [
        knock(attacker, WRONG, address=f"203.0.113.{number}").status_code for number in range(200)
    ]

    assert answers[:20] == [401] * 20
    turns = (time.monotonic() - started) / turn + 1
    assert 1 <= answers[20:].count(401) <= turns
    assert set(answers) == {401, 429}
    # At once from where the owner was before; after a turn from anywhere else.
    assert knock(house.test_client(), address="192.0.2.1").status_code == 303
    elsewhere = knock(house.test_client(), address="192.0.2.99")
    if elsewhere.status_code == 429:
        assert int(elsewhere.headers["Retry-After"]) <= turn + 1
        time.sleep(turn)
        elsewhere = knock(house.test_client(), address="192.0.2.99")
    assert elsewhere.status_code == 303


def test_without_redis_people_sign_in_and_attackers_wait(
    house: Flask, visitor: FlaskClient, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = SteadyCounters(Redis(port=1, socket_connect_timeout=0.2))
    monkeypatch.setitem(house.extensions, "wireroom_throttle", Throttle(away, "key"))

    answers = [knock(visitor, WRONG, address="198.51.100.66").status_code for _ in range(12)]

    assert answers == [401] * 10 + [429] * 2
    assert knock(visitor, address="192.0.2.1").status_code == 303


def test_until_there_is_an_administrator_only_the_setup_link_works(
    visitor: FlaskClient, rows: Session
) -> None:
    add_user(rows, role=Role.VIEWER)
    for page in ("/room", "/login"):
        assert visitor.get(page).location == "/setup"
    assert knock(visitor).location == "/setup"
    assert "Look at the console" in visitor.get("/setup").text
    assert visitor.get("/setup/unknown").status_code == 410
    link = "/setup/" + setup.setup_link(rows, "").rpartition("/")[2]
    fields = {"email": "root@example.com", "password": PASSWORD, "again": PASSWORD}
    token = token_of(visitor.get(link))

    different = visitor.post(link, data={"csrf_token": token, **fields, "again": "else"})
    assert different.status_code == 400
    assert "not the same" in different.text
    weak = visitor.post(link, data={"csrf_token": token, **fields, "password": "x", "again": "x"})
    assert weak.status_code == 400
    assert "12 characters" in weak.text
    done = visitor.post(link, data={"csrf_token": token, **fields})

    assert done.location == "/"
    assert visitor.get("/room").text == "user:root@example.com"
    assert visitor.get(link).status_code == 410
    assert post(visitor, link, fields).status_code == 410
    assert visitor.get("/setup").location == "/login"


def test_an_invitation_lets_somebody_in(visitor: FlaskClient, ada: User, rows: Session) -> None:
    us = access_of_command()
    eve = users.add_user(rows, us, "eve@example.com")
    users.give(rows, us, eve, Role.VIEWER, None)
    link = setup.password_link(rows, us, eve, "")
    page = visitor.get(link)
    assert "eve@example.com" in page.text
    fields = {"csrf_token": token_of(page), "password": PASSWORD, "again": PASSWORD}

    assert visitor.post(link, data={**fields, "again": "else"}).status_code == 400
    assert visitor.post(link, data=fields).location == "/"

    assert visitor.get("/room").text == "user:eve@example.com"
    assert visitor.get(link).status_code == 410


def test_what_nobody_is_signed_in_for_answers_as_the_asker_understands(
    visitor: FlaskClient, ada: User
) -> None:
    posted = post(visitor, "/room/act")
    assert (posted.status_code, posted.location) == (303, "/login?next=%2F")

    headers = {"HX-Request": "true", "HX-Current-URL": "http://localhost/room?page=2"}
    polled = visitor.get("/room", headers=headers)
    assert polled.status_code == 401
    assert polled.headers["HX-Redirect"] == "/login?next=%2Froom%3Fpage%3D2"
    headers["HX-Current-URL"] = "https://evil.example//evil.example"
    assert visitor.get("/room", headers=headers).headers["HX-Redirect"] == "/login?next=%2F"


@pytest.mark.parametrize("url", ["/logout", "/room/act"])
def test_nothing_is_done_by_get(visitor: FlaskClient, ada: User, url: str) -> None:
    knock(visitor)

    assert visitor.get(url).status_code == 405
