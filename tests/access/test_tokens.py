"""API tokens: shown once, hashed, ended and revoked at once; one statement each time."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, func, select, update
from sqlalchemy.orm import Session

from dashboard.access.models import ApiToken
from dashboard.access.permissions import Permission
from dashboard.access.scope import OutOfScope, access_of_token
from dashboard.access.tokens import bearer, find_token, make_token
from dashboard.database import database_now, new_id
from tests.factories import make_source

SENDS = [Permission.DISPATCH_CREATE, Permission.DISPATCH_LIST]


def add_token(rows: Session, hours: float | None = None) -> str:
    expires_at = database_now(rows) + timedelta(hours=hours) if hours is not None else None
    text = make_token(rows, make_source(rows), "site", SENDS, expires_at)
    rows.commit()
    return text


def test_a_token_is_found_and_only_its_hash_is_stored(rows: Session) -> None:
    text = add_token(rows)

    token = find_token(rows, text)

    assert token is not None
    assert token.prefix == text[:10]
    stored = " ".join(str(value) for value in vars(token).values())
    assert text not in stored


def test_what_a_token_may_do_ends_at_its_source(rows: Session) -> None:
    token = find_token(rows, add_token(rows))
    assert token is not None
    access = access_of_token(token)

    access.require(Permission.DISPATCH_CREATE, token.source_id)
    assert access.actor == "token:programme-site/site"
    assert access.via == "api"
    with pytest.raises(OutOfScope):
        access.require(Permission.DISPATCH_CREATE, new_id())


def test_an_expired_token_is_none(rows: Session) -> None:
    assert find_token(rows, add_token(rows, hours=1)) is not None
    assert find_token(rows, add_token(rows, hours=-0.001)) is None


def test_a_revoked_token_is_none_from_the_next_request_on(rows: Session) -> None:
    text = add_token(rows)
    assert find_token(rows, text) is not None

    rows.execute(update(ApiToken).values(revoked_at=func.now()))

    assert find_token(rows, text) is None


@pytest.mark.parametrize("text", ["", "wr_", "wr_unknown", "x" * 5000, "wr_\0", "wr_\ud800"])
def test_no_text_breaks_it(rows: Session, text: str) -> None:
    assert find_token(rows, text) is None


def test_a_look_up_is_one_statement_and_use_is_noted_once_a_minute(
    rows: Session, database: Engine
) -> None:
    text = add_token(rows)
    seen: list[str] = []

    def note(_: Any, __: Any, statement: str, *___: Any) -> None:
        seen.append(statement.split()[0])

    event.listen(database, "before_cursor_execute", note)
    try:
        for _ in range(3):
            rows.expunge_all()
            token = find_token(rows, text)
            assert token is not None
            assert token.source.name == "programme-site"
    finally:
        event.remove(database, "before_cursor_execute", note)

    assert seen == ["SELECT", "UPDATE", "SELECT", "SELECT"]
    rows.rollback()
    assert rows.scalar(select(ApiToken.last_used_at)) is not None


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ("Bearer wr_a", "wr_a"),
        ("bearer   wr_a ", "wr_a"),
        ("Basic wr_a", ""),
        ("wr_a", ""),
        ("", ""),
    ],
)
def test_the_header_is_read_as_it_may_be_written(header: str, text: str) -> None:
    assert bearer(header) == text
