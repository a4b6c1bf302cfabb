"""What surrounds every page: headers, CSRF, hosts, proxies, limits."""

import uuid
from collections.abc import Callable, Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy.orm import Session

from dashboard.access.models import User
from dashboard.access.permissions import Role
from dashboard.database import db
from dashboard.pages.security import content_security_policy
from dashboard.settings import Settings, use
from tests.access.house import add_user, build, knock, post, token_of
from tests.access.house_fixtures import _house, house, rows, visitor

__all__ = ["_house", "house", "rows", "visitor"]


@pytest.fixture
def ada(rows: Session, visitor: FlaskClient) -> User:
    """An administrator, signed in."""
    user = add_user(rows, role=Role.ADMINISTRATOR)
    assert knock(visitor).status_code == 303
    return user


@pytest.fixture
def built(settings: Settings, clean: None) -> Iterator[Callable[..., Flask]]:
    """Build applications with other settings."""
    apps: list[Flask] = []

    def build_one(**update: object) -> Flask:
        apps.append(build(settings.model_copy(update=update)))
        return apps[-1]

    yield build_one
    for app in apps:
        with app.app_context():
            db.engine.dispose()
    use(settings)


@pytest.mark.parametrize("url", ["/login", "/room", "/no-such-page", "/healthz"])
def test_every_answer_carries_the_headers(visitor: FlaskClient, ada: User, url: str) -> None:
    headers = visitor.get(url).headers

    assert headers["Content-Security-Policy"] == content_security_policy(cdn=True)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert "camera=()" in headers["Permissions-Policy"]
    assert "Strict-Transport-Security" not in headers


def test_the_policy_names_two_files_of_the_cdn_and_with_local_assets_none() -> None:
    cdn, local = content_security_policy(cdn=True), content_security_policy(cdn=False)

    assert "script-src 'self' https://cdn.jsdelivr.net/npm/htmx.org@2.0.11/dist/htmx.min.js" in cdn
    assert "https" not in local
    for policy in (cdn, local):
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy


def test_a_form_without_its_token_is_refused(visitor: FlaskClient, ada: User) -> None:
    answer = visitor.post("/room/act")

    assert answer.status_code == 400
    assert post(visitor, "/room/act").status_code == 200


@pytest.mark.parametrize("url", ["/login", "/logout", "/setup/x", "/invitation/x"])
def test_the_doors_need_a_token_too(visitor: FlaskClient, ada: User, url: str) -> None:
    assert visitor.post(url, data={"email": "ada@example.com"}).status_code == 400


def test_a_token_of_another_session_is_refused(
    house: Flask, visitor: FlaskClient, ada: User, rows: Session
) -> None:
    attacker = house.test_client()
    add_user(rows, "eve@example.com")
    knock(attacker, email="eve@example.com")
    stolen = token_of(attacker.get("/token-page"))

    assert visitor.post("/room/act", data={"csrf_token": stolen}).status_code == 400
    assert visitor.post("/room/act", headers={"X-CSRFToken": stolen}).status_code == 400
    # Not even with the cookie that belongs to the token, set from a neighbouring host.
    planted = attacker.get_cookie("wireroom_form")
    assert planted is not None
    visitor.set_cookie("wireroom_form", planted.value)
    assert visitor.post("/room/act", data={"csrf_token": stolen}).status_code == 400


def test_a_token_from_before_signing_in_is_refused_after_it(house: Flask, rows: Session) -> None:
    add_user(rows, role=Role.ADMINISTRATOR)
    visitor = house.test_client()
    before = token_of(visitor.get("/login"))
    knock(visitor)

    assert visitor.post("/room/act", data={"csrf_token": before}).status_code == 400


def test_htmx_may_send_the_token_in_a_header(visitor: FlaskClient, ada: User) -> None:
    token = token_of(visitor.get("/token-page"))

    assert visitor.post("/room/act", headers={"X-CSRFToken": token}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://localhost"}, 200),
        ({"Origin": "null"}, 200),
        ({"Origin": "null", "Sec-Fetch-Site": "cross-site"}, 403),
        ({}, 200),
    ],
)
def test_a_form_of_another_site_is_refused_even_with_the_token(
    visitor: FlaskClient, ada: User, headers: dict[str, str], status: int
) -> None:
    assert post(visitor, "/room/act", headers=headers).status_code == status


def test_json_in_a_plain_text_form_is_no_way_around(visitor: FlaskClient, ada: User) -> None:
    answer = visitor.post("/room/act", data='{"csrf_token":"x"}', content_type="text/plain")

    assert answer.status_code == 400


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("127.0.0.1:8000", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
    ],
)
def test_pages_open_only_under_their_own_names(
    visitor: FlaskClient, ada: User, host: str, status: int
) -> None:
    assert visitor.get("/token-page", headers={"Host": host}).status_code == status
    assert visitor.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_form_of_more_than_a_megabyte_is_refused(visitor: FlaskClient, ada: User) -> None:
    assert post(visitor, "/room/act", {"reason": "a" * 2_000_000}).status_code == 413


def test_behind_one_proxy_the_nearest_address_counts(
    built: Callable[..., Flask], rows: Session
) -> None:
    behind = built(trusted_proxies=1)
    add_user(rows, role=Role.ADMINISTRATOR)
    visitor = behind.test_client()

    def answer(forged: str, real: str) -> int:
        headers = {"X-Forwarded-For": f"{forged}, {real}"}
        return knock(visitor, "wrong password", address="10.0.0.1", headers=headers).status_code

    answers = [answer(f"203.0.113.{number}", "198.51.100.66") for number in range(12)]

    assert answers == [401] * 10 + [429] * 2
    assert answer("203.0.113.1", "192.0.2.1") == 401


def test_over_https_cookies_belong_to_this_host_alone(
    built: Callable[..., Flask], rows: Session
) -> None:
    app = built(public_base_url="https://desk.example.com", assets="local")
    add_user(rows, role=Role.ADMINISTRATOR)
    visitor = app.test_client()
    page = visitor.get("/login", base_url="https://desk.example.com")

    answer = visitor.post(
        "/login",
        base_url="https://desk.example.com",
        data={
            "csrf_token": token_of(page),
            "email": "ada@example.com",
            "password": "correct horse battery",
        },
    )

    assert answer.status_code == 303
    cookies = [*page.headers.getlist("Set-Cookie"), *answer.headers.getlist("Set-Cookie")]
    assert cookies
    for cookie in cookies:
        assert cookie.startswith("__Host-")
        assert "Secure" in cookie
        assert "HttpOnly" in cookie
        assert "Path=/" in cookie
        assert "SameSite=Lax" in cookie
        assert "Domain" not in cookie
    assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
    assert "jsdelivr" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("method", "url", "field"),
    [
        ("POST", "/dispatches/search", "q"),
        ("POST", "/dispatches/{id}/cancel", "reason"),
        ("POST", "/dispatches/{id}/resend", "back"),
        ("POST", "/suppressions/{id}/lift", "reason"),
        ("POST", "/preferences/theme", "theme"),
        ("POST", "/room/act", "any\0name"),
        ("GET", "/dispatches", "stamp"),
    ],
)
def test_a_nul_in_any_field_of_a_page_is_refused_in_words(
    visitor: FlaskClient, ada: User, method: str, url: str, field: str
) -> None:
    given = {field: "left\0right"}
    address = url.format(id=uuid.uuid4())
    if method == "GET":
        answer = visitor.get(address, query_string=given)
    else:
        answer = post(visitor, address, given)

    assert answer.status_code == 400
    assert "NUL" in answer.text
    assert "nothing was changed" in answer.text
