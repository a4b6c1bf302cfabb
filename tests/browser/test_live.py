"""What moves by itself: live updates, presses without a reload, the CDN that does not answer."""

import time

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy.orm import Session, scoped_session

from dashboard.access.scope import access_of_command
from dashboard.dispatch.actions.cancel import cancel
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Failure, State
from tests.browser.conftest import Invite
from tests.factories import make_dispatch

pytestmark = pytest.mark.browser
Db = scoped_session[Session]


def waiting(session: Db) -> Dispatch:
    row = make_dispatch(session, state=State.ERRORED, failure=Failure.EXHAUSTED, tries=12)
    session.commit()
    return row


def cancel_elsewhere(session: Db, row: Dispatch) -> None:
    cancel(session, row.id, access_of_command(), reason="wrong template")


def requests_of(page: Page, part: str) -> list[str]:
    """Collects the addresses that the page asks for from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if part in request.url else None)
    return asked


def test_a_change_is_seen_within_two_seconds(visit: Invite, session: Db) -> None:
    row = waiting(session)
    page = visit().open(f"/dispatches/{row.id}")
    expect(page.locator("h1")).to_contain_text("Not sent")
    page.evaluate("window.sameDocument = true")
    cancel_elsewhere(session, row)
    began = time.monotonic()
    expect(page.locator("h1")).to_contain_text("Cancelled", timeout=4000)
    assert time.monotonic() - began < 2.5
    assert page.evaluate("window.sameDocument")
    assert "Cancelled" in page.title()


def test_nothing_is_asked_any_more_once_nothing_can_change(visit: Invite, session: Db) -> None:
    row = make_dispatch(session, state=State.SENT)
    session.commit()
    page = visit().open(f"/dispatches/{row.id}")
    asked = requests_of(page, "/live")
    page.wait_for_timeout(3500)
    assert asked == []


def test_what_somebody_types_survives_the_refresh(visit: Invite, session: Db) -> None:
    row = waiting(session)
    page = visit().open(f"/dispatches/{row.id}")
    page.get_by_text("Add a reason").first.click()
    reason = page.locator("input[name=reason]").first
    reason.fill("the speaker is on the phone")
    reason.evaluate("field => field.setSelectionRange(4, 11)")
    row.hold = row.hold
    row.error = "452 Mailbox full"
    row.version += 1
    session.commit()
    expect(page.locator(".verdict > p").first).to_contain_text("452", timeout=4000)
    assert reason.input_value() == "the speaker is on the phone"
    caret = reason.evaluate("field => [field.selectionStart, field.selectionEnd]")
    assert caret == [4, 11]
    assert page.locator("details.why").first.get_attribute("open") is not None


def test_pause_stops_the_questions_and_says_so(visit: Invite, session: Db) -> None:
    row = waiting(session)
    page = visit().open(f"/dispatches/{row.id}")
    page.get_by_role("button", name="Pause").click()
    asked = requests_of(page, "/live")
    page.wait_for_timeout(3500)
    assert asked == []
    assert "Paused at" in page.locator("#live-line").inner_text()
    page.get_by_role("button", name="Go on").click()
    page.wait_for_timeout(2500)
    assert asked


def test_a_server_that_is_away_is_said(visit: Invite, session: Db) -> None:
    row = waiting(session)
    visitor = visit()
    page = visitor.open(f"/dispatches/{row.id}")
    page.route("**/live*", lambda route: route.abort())
    expect(page.locator("#live-line")).to_contain_text("Live updates stopped at", timeout=5000)
    expect(page.locator("#live-line")).to_contain_text("trying again in")
    visitor.complaints.clear()  # the browser's own words about the refused connection


def test_try_again_is_one_press_without_a_reload(visit: Invite, session: Db) -> None:
    row = waiting(session)
    page = visit().open(f"/dispatches/{row.id}")
    page.evaluate("window.sameDocument = true")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#notices")).to_contain_text("Queued again")
    expect(page.locator("h1")).to_contain_text("Waiting for a worker")
    assert page.evaluate("window.sameDocument")


def test_a_press_in_the_list_updates_the_list(visit: Invite, session: Db) -> None:
    waiting(session)
    page = visit().open("/dispatches")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#notices")).to_contain_text("Queued again")
    expect(page.locator("tbody tr:has(td)")).to_contain_text("Queued")


def test_the_loser_of_a_race_is_told_on_the_page(visit: Invite, session: Db) -> None:
    row = waiting(session)
    visitor = visit()
    page = visitor.open(f"/dispatches/{row.id}")
    page.get_by_role("button", name="Pause").click()
    cancel_elsewhere(session, row)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator("#notices")).to_contain_text("It changed while you looked at it")
    expect(page.locator("h1")).to_contain_text("Cancelled")
    assert [one for one in visitor.complaints if "409" not in one] == []
    visitor.complaints.clear()  # the browser's own line about the status 409


def test_without_javascript_a_press_works_and_is_confirmed(visit: Invite, session: Db) -> None:
    row = waiting(session)
    page = visit(java_script_enabled=False).open(f"/dispatches/{row.id}")
    page.get_by_role("button", name="Try again").click()
    assert "Queued again" in page.locator("#notices").inner_text()
    assert "Waiting for a worker" in page.locator("h1").inner_text()


def test_a_second_copy_is_asked_about_once_more(visit: Invite, session: Db) -> None:
    row = make_dispatch(session, state=State.SUCCEEDED)
    session.commit()
    page = visit().open(f"/dispatches/{row.id}")
    page.get_by_role("link", name="Resend…").click()
    assert "second copy" in page.locator("h1").inner_text()
    page.get_by_role("button", name="Resend").click()
    expect(page.locator("#notices")).to_contain_text("Resent")
    assert session.query(Dispatch).count() == 2


@pytest.mark.parametrize("assets", ["cdn"], indirect=True)
def test_when_the_cdn_does_not_answer_our_own_copies_do(visit: Invite, session: Db) -> None:
    row = waiting(session)
    visitor = visit()
    visitor.page.route("https://cdn.jsdelivr.net/**", lambda route: route.abort())
    page = visitor.open(f"/dispatches/{row.id}")
    page.wait_for_load_state("load")
    cancel_elsewhere(session, row)
    expect(page.locator("h1")).to_contain_text("Cancelled", timeout=5000)
    visitor.complaints.clear()  # the browser's own words about the CDN
