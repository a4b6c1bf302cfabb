"""One-time links, users and grants: once, for a day, and never without an administrator."""

import threading

import pytest
from sqlalchemy import Engine, func, select, text, update
from sqlalchemy.orm import Session

from dashboard.access import setup, users
from dashboard.access.models import Activity, Grant, SetupLink, User, UserSession
from dashboard.access.passwords import PasswordRefused
from dashboard.access.permissions import ROLES, Role
from dashboard.access.scope import NotAllowed, access_of_command, from_grants
from dashboard.access.sessions import Browser
from dashboard.access.setup import LinkInvalid
from dashboard.access.users import EmailRefused, LastAdministrator
from tests.access.house import PASSWORD, add_user
from tests.factories import make_source

BASE = "https://wireroom.example/"
US = access_of_command()


def token_in(url: str) -> str:
    return url.rpartition("/")[2]


def make(rows: Session, token: str, email: str = "ada@example.com") -> str:
    return setup.make_administrator(
        rows, token, email=email, password=PASSWORD, browser=Browser("192.0.2.1")
    )


def test_the_setup_link_makes_one_administrator_once(rows: Session) -> None:
    url = setup.setup_link(rows, BASE)
    assert url.startswith("https://wireroom.example/setup/")

    make(rows, token_in(url), " Ada@Example.com ")

    assert rows.scalars(select(User.email)).all() == ["ada@example.com"]
    grant = rows.scalars(select(Grant)).one()
    assert (grant.role, grant.source_id) == (Role.ADMINISTRATOR, None)
    assert rows.scalar(select(func.count()).select_from(UserSession)) == 1
    with pytest.raises(LinkInvalid):
        make(rows, token_in(url), "eve@example.com")
    assert setup.setup_link(rows, BASE) == ""


def test_a_new_setup_link_ends_the_older_one(rows: Session) -> None:
    old, new = setup.setup_link(rows, BASE), setup.setup_link(rows, BASE)

    with pytest.raises(LinkInvalid):
        make(rows, token_in(old))
    rows.rollback()
    make(rows, token_in(new))


def test_a_setup_link_ends_after_a_day(rows: Session) -> None:
    token = token_in(setup.setup_link(rows, BASE))
    rows.execute(text("UPDATE setup_link SET expires_at = expires_at - interval '24 hours'"))

    with pytest.raises(LinkInvalid):
        make(rows, token)


def test_a_refused_form_leaves_the_link_open(rows: Session) -> None:
    token = token_in(setup.setup_link(rows, BASE))

    with pytest.raises(EmailRefused):
        make(rows, token, "not an address")
    rows.rollback()
    with pytest.raises(PasswordRefused):
        setup.make_administrator(
            rows, token, email="ada@example.com", password="short", browser=Browser()
        )
    rows.rollback()
    assert rows.scalars(select(User)).all() == []
    make(rows, token)


def test_two_at_once_make_one_administrator(rows: Session, database: Engine) -> None:
    token = token_in(setup.setup_link(rows, BASE))
    outcomes: list[str] = []
    start = threading.Barrier(2)

    def run(email: str) -> None:
        with Session(database) as session:
            start.wait()
            try:
                make(session, token, email)
                outcomes.append("made")
            except LinkInvalid:
                outcomes.append("refused")

    threads = [threading.Thread(target=run, args=(f"{name}@example.com",)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["made", "refused"]
    assert rows.scalar(select(func.count()).select_from(Grant)) == 1


def test_a_link_is_stored_as_a_hash(rows: Session) -> None:
    token = token_in(setup.setup_link(rows, BASE))

    stored = rows.execute(text("SELECT to_json(s)::text FROM setup_link s")).scalars().all()
    assert len(stored) == 1
    assert token not in stored[0]


def test_an_administrator_of_one_source_or_switched_off_is_none(rows: Session) -> None:
    user = add_user(rows, role=None)
    rows.add(Grant(user_id=user.id, role=Role.ADMINISTRATOR, source_id=make_source(rows).id))
    rows.flush()
    assert not setup.administrator_exists(rows)

    rows.add(Grant(user_id=user.id, role=Role.ADMINISTRATOR))
    rows.flush()
    assert setup.administrator_exists(rows)

    rows.execute(update(User).values(active=False))
    assert not setup.administrator_exists(rows)


def test_an_invitation_sets_a_password_once(rows: Session) -> None:
    user = users.add_user(rows, US, "eve@example.com", "Eve")
    users.give(rows, US, user, Role.VIEWER, None)
    url = setup.password_link(rows, US, user, BASE)
    assert url.startswith("https://wireroom.example/invitation/")

    def accept() -> str:
        return setup.accept_invitation(rows, token_in(url), password=PASSWORD, browser=Browser())

    assert accept()
    with pytest.raises(LinkInvalid):
        accept()
    rows.rollback()
    with pytest.raises(LinkInvalid):
        make(rows, token_in(setup.password_link(rows, US, user, BASE)))


def test_a_link_of_somebody_switched_off_is_over(rows: Session) -> None:
    add_user(rows, "root@example.com", Role.ADMINISTRATOR)
    user = users.add_user(rows, US, "eve@example.com")
    token = token_in(setup.password_link(rows, US, user, BASE))
    users.switch_off(rows, US, user)
    rows.commit()

    with pytest.raises(LinkInvalid):
        setup.accept_invitation(rows, token, password=PASSWORD, browser=Browser())


def test_the_last_administrator_stays(rows: Session) -> None:
    root = add_user(rows, "root@example.com", Role.ADMINISTRATOR)

    with pytest.raises(LastAdministrator):
        users.take(rows, US, root, Role.ADMINISTRATOR, None)
    with pytest.raises(LastAdministrator):
        users.switch_off(rows, US, root)
    second = users.add_user(rows, US, "second@example.com")
    users.give(rows, US, second, Role.ADMINISTRATOR, None)
    assert users.take(rows, US, root, Role.ADMINISTRATOR, None)
    with pytest.raises(LastAdministrator):
        users.switch_off(rows, US, second)


def test_a_role_is_given_once_and_only_by_who_may(rows: Session) -> None:
    user = add_user(rows, role=None)
    source = make_source(rows)

    assert users.give(rows, US, user, Role.VIEWER, None)
    assert not users.give(rows, US, user, Role.VIEWER, None)
    assert users.give(rows, US, user, Role.VIEWER, source.id)
    assert not users.give(rows, US, user, Role.VIEWER, source.id)
    assert not users.take(rows, US, user, Role.AUDITOR, None)
    maintainer = from_grants("user:m", [(None, ROLES[Role.MAINTAINER])])
    local = from_grants("user:l", [(source.id, ROLES[Role.ADMINISTRATOR])])
    for access in (maintainer, local):
        with pytest.raises(NotAllowed, match="access:manage"):
            users.give(rows, access, user, Role.ADMINISTRATOR, None)
        with pytest.raises(NotAllowed):
            users.add_user(rows, access, "other@example.com")


def test_an_email_is_one_user_however_it_is_written(rows: Session) -> None:
    users.add_user(rows, US, "Ada@Example.com")

    with pytest.raises(EmailRefused):
        users.add_user(rows, US, "ada@example.COM")


def test_what_was_done_is_in_the_activity_of_the_same_transaction(rows: Session) -> None:
    user = users.add_user(rows, US, "eve@example.com")
    users.give(rows, US, user, Role.VIEWER, None)
    rows.rollback()
    assert rows.scalars(select(Activity)).all() == []

    user = users.add_user(rows, US, "eve@example.com")
    users.give(rows, US, user, Role.VIEWER, None)
    setup.password_link(rows, US, user, BASE)

    lines = rows.scalars(select(Activity).order_by(Activity.id)).all()
    assert [(line.actor, line.via, line.action) for line in lines] == [
        ("cli:operator", "cli", "add user"),
        ("cli:operator", "cli", "give role"),
        ("cli:operator", "cli", "make password link"),
    ]
    assert rows.scalar(select(func.count()).select_from(SetupLink)) == 1
