"""The API's list: what narrows it, how it turns pages, whose rows it shows."""

from typing import Any
from urllib.parse import urlencode

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.permissions import Permission
from dashboard.dispatch.states import Channel, State
from tests.factories import make_dispatch
from tests.pages.api_client import ApiClient


@pytest.fixture
def api(client: FlaskClient, session: scoped_session[Session]) -> ApiClient:
    return ApiClient(client, session())


@pytest.fixture
def rows(api: ApiClient, session: scoped_session[Session]) -> dict[str, str]:
    """Dispatches that differ in one thing each, by that thing; oldest first."""
    different: dict[str, dict[str, Any]] = {
        "plain": {},
        "sms": {"channel": Channel.SMS, "recipient": "+12025550143"},
        "errored": {"state": State.ERRORED},
        "done": {"state": State.SENT, "provider": "smtp"},
        "kind": {"kind": "speakers/invitation"},
        "target": {"target_type": "invitation", "target_id": "482"},
        "labels": {"labels": {"conference": "pycon-2027", "presenter": "77"}},
    }
    found = {
        name: str(make_dispatch(session(), source=api.source, **values).id)
        for name, values in different.items()
    }
    session.commit()
    return found


def asked(api: ApiClient, *pairs: tuple[str, object]) -> list[str]:
    answer = api.get(f"/dispatches?{urlencode(pairs)}")
    assert answer.status_code == 200, answer.json
    return [one["id"] for one in answer.json["dispatches"]]


@pytest.mark.parametrize(
    ("pairs", "names"),
    [
        ([], ["labels", "target", "kind", "done", "errored", "sms", "plain"]),
        ([("channel", "sms")], ["sms"]),
        ([("state", "errored")], ["errored"]),
        ([("view", "done")], ["done"]),
        ([("view", "active"), ("state", "errored")], ["errored"]),
        ([("view", "done"), ("state", "errored")], []),
        ([("provider", "smtp")], ["done"]),
        ([("kind", "speakers/invitation")], ["kind"]),
        ([("target_type", "invitation"), ("target_id", "482")], ["target"]),
        ([("label", "conference=pycon-2027")], ["labels"]),
        ([("label", "conference=pycon-2027"), ("label", "presenter=77")], ["labels"]),
        ([("label", "conference=pycon-2027"), ("label", "presenter=78")], []),
        ([("until", "2020-01-01T00:00:00+00:00")], []),
        ([("from", "2020-01-01T00:00:00+00:00"), ("channel", "sms")], ["sms"]),
    ],
)
def test_a_filter_narrows_the_list(
    api: ApiClient, rows: dict[str, str], pairs: list[tuple[str, object]], names: list[str]
) -> None:
    assert asked(api, *pairs) == [rows[name] for name in names]


def test_pages_hold_each_row_once_also_where_the_times_are_equal(
    api: ApiClient, rows: dict[str, str], session: scoped_session[Session]
) -> None:
    session.execute(text("UPDATE dispatch SET created_at = now()"))
    session.commit()
    seen: list[str] = []
    query = "limit=3"
    while query:
        page = api.get(f"/dispatches?{query}").json
        seen += [one["id"] for one in page["dispatches"]]
        query = urlencode({"limit": 3, "cursor": page["next"]}) if page["next"] else ""

    assert seen == sorted(rows.values(), reverse=True)


def test_the_rows_of_other_sources_are_not_listed(
    client: FlaskClient, rows: dict[str, str], session: scoped_session[Session]
) -> None:
    assert rows
    stranger = ApiClient(client, session(), source="ticket-shop")
    assert asked(stranger) == []


def test_recipients_are_masked_without_the_permission(
    client: FlaskClient, rows: dict[str, str], session: scoped_session[Session]
) -> None:
    reader = ApiClient(client, session(), permissions=[Permission.DISPATCH_LIST])
    page = reader.get("/dispatches").json["dispatches"]

    assert {one["recipient"] for one in page} == {"a…@example.com", "+12…43"}
    assert len(page) == len(rows)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("state=lost", "state"),
        ("channel=fax", "channel"),
        ("view=mine", "view"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=many", "limit"),
        ("cursor=!", "cursor"),
        ("cursor=YWJj", "cursor"),
        ("cursor=%FF", "cursor"),
        ("from=2026-12-01", "from"),
        ("until=9999-12-31T23:59:59-12:00", "until"),
        ("label=x", "label"),
        ("label=a%3D%00", "label"),
        ("kind=%00", "kind"),
        ("target_id=a%0Ab", "target_id"),
        ("q=ada%40example.com", "q"),
    ],
)
def test_a_filter_that_is_none_is_named(api: ApiClient, query: str, field: str) -> None:
    answer = api.get(f"/dispatches?{query}")

    assert answer.status_code == 400
    assert answer.json["errors"][0]["field"] == field
