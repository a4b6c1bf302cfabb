"""The framed content of a dispatch: its own policy, its permission, nothing that acts."""

import pytest
from flask import Flask
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.permissions import Role
from dashboard.pages.preview import data_address, safe_html
from tests.factories import make_dispatch, make_source
from tests.pages.desk import sign_in

Db = scoped_session[Session]


def test_the_page_frames_the_content_without_any_permission(app: Flask, session: Db) -> None:
    desk = sign_in(app, session)
    row = make_dispatch(session, html="<p>Hello</p>")
    session.commit()
    page = desk.get(f"/dispatches/{row.id}").text
    assert f'<iframe sandbox="" src="/dispatches/{row.id}/preview"' in page
    answer = desk.get(f"/dispatches/{row.id}/preview")
    assert "<p>Hello</p>" in answer.text
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_content_needs_its_own_permission(app: Flask, session: Db) -> None:
    row = make_dispatch(session, html="<p>Hello</p>")
    session.commit()
    desk = sign_in(app, session, Role.VIEWER)
    assert desk.get(f"/dispatches/{row.id}/preview").status_code == 403


def test_content_of_another_source_is_not_there(app: Flask, session: Db) -> None:
    mine, other = make_source(session, "mine"), make_source(session, "other")
    row = make_dispatch(session, source=other, html="<p>Hello</p>")
    session.commit()
    desk = sign_in(app, session, source=mine)
    assert desk.get(f"/dispatches/{row.id}/preview").status_code == 404


@pytest.mark.parametrize(
    "harm",
    [
        "<script>alert(1)</script>",
        '<svg onload="alert(1)"></svg>',
        '<a href="javascript:alert(1)">x</a>',
        '<img src="https://tracker.example/px">',
        '<img src="//tracker.example/px">',
        '<p style="background:url(https://tracker.example/px)">x</p>',
        '<iframe src="/"></iframe>',
        '<link rel="stylesheet" href="https://tracker.example/x.css">',
        '<style>@import "https://tracker.example/x.css"</style>',
        '<base href="https://tracker.example/">',
        '<input autofocus onfocus="alert(1)">',
        '<div style="position:fixed;top:0">x</div>',
        '<img src="data:text/html,<script>1</script>">',
    ],
)
def test_what_could_act_is_taken_out(harm: str) -> None:
    safe = safe_html(harm)
    for word in ("alert", "tracker.example", "<script", "position", "iframe", "javascript", "src="):
        assert word not in safe


def test_a_link_shows_where_it_leads_and_leads_nowhere() -> None:
    safe = safe_html('<a href="https://example.com/?a=1&amp;b=2" target="_blank">Go <b>on</b></a>')
    assert "href" not in safe
    assert "Go <b>on</b>" in safe
    assert "[https://example.com/?a=1&amp;b=2]" in safe


def test_only_small_pictures_of_known_types_are_shown_inline() -> None:
    assert data_address("image/png; name=x", b"\x89PNG").startswith("data:image/png;base64,")
    assert data_address("image/svg+xml", b"<svg/>") == ""
    assert data_address("text/html", b"<p>") == ""
    assert data_address("image/png", b"x" * 2_000_001) == ""
