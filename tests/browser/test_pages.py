"""Every page in a real browser: readable by everybody, in both themes, on a phone, without JS."""

import re
from collections.abc import Sequence

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect
from sqlalchemy.orm import Session, scoped_session

from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import Channel, Failure, State
from dashboard.providers.sandbox_store import capture
from dashboard.settings import Settings
from tests.browser.conftest import Invite
from tests.factories import make_attempt, make_dispatch

pytestmark = pytest.mark.browser
Db = scoped_session[Session]

MAIL = (
    b"Subject: Hello\r\nFrom: desk@example.com\r\nTo: ada@example.com\r\n"
    b"Content-Type: text/html\r\n\r\n<p>Hello <b>Ada</b></p>\r\n"
)
SERIOUS = ("serious", "critical")


@pytest.fixture
def rows(session: Db) -> list[Dispatch]:
    """One dispatch in every state, and a long name that wants to push the page sideways."""
    made = [
        make_dispatch(session, state=state, recipient=f"{state}@example.com", html="<p>Hi</p>")
        for state in State
    ]
    long = "a-very-long-address-without-any-place-to-break-it-" * 3
    made.append(
        make_dispatch(
            session,
            state=State.ERRORED,
            failure=Failure.REFUSED,
            permanent=True,
            recipient=f"{long}@example.com",
            subject="W" * 300,
            error="550 " + "x" * 400,
            target_type="invitation",
            target_id="482",
            labels={"conference": "pycon-2027"},
        )
    )
    sms = make_dispatch(session, state=State.SENT, channel=Channel.SMS, recipient="+12025550143")
    for row in (made[5], sms):
        make_attempt(session, row)
    session.commit()
    return [*made, sms]


@pytest.fixture
def paths(rows: Sequence[Dispatch], settings: Settings) -> list[str]:
    """Every kind of page that there is."""
    captured = capture(
        settings.data_dir, mail_from="a@example.com", rcpt_to=["b@example.com"], content=MAIL
    )
    by_state = {row.state: row.id for row in rows}
    return [
        "/dispatches",
        "/dispatches?view=done",
        "/dispatches?state=errored&channel=sms",
        *(f"/dispatches/{one}" for one in by_state.values()),
        f"/dispatches/{rows[-2].id}",
        f"/dispatches/{by_state[State.SUCCEEDED]}/resend",
        "/sandbox",
        f"/sandbox/{captured}",
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit: Invite, paths: list[str], scheme: str) -> None:
    visitor = visit(color_scheme=scheme)
    found = []
    for path in paths:
        page = visitor.open(path)
        for violation in Axe().run(page).response["violations"]:
            if violation["impact"] in SERIOUS:
                nodes = [node["html"][:120] for node in violation["nodes"][:3]]
                found.append((path, violation["id"], nodes))
    assert found == []


def test_a_phone_never_scrolls_sideways(visit: Invite, paths: list[str]) -> None:
    visitor = visit(width=390)
    for path in paths:
        page = visitor.open(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
        for button in page.locator("main .btn:visible, main summary:visible").all():
            box = button.bounding_box()
            assert box is None or box["height"] >= 24, (path, button.inner_text())


def test_every_page_reads_the_same_without_javascript(visit: Invite, paths: list[str]) -> None:
    with_script, without = visit(), visit("other@example.com", java_script_enabled=False)
    for path in paths:
        headings = [one.open(path).locator("h1").inner_text() for one in (with_script, without)]
        # Only a script tells the zone; without one the times are in UTC.
        assert len({re.sub(r"\d[\d:]*", "", one) for one in headings}) == 1


def test_the_menu_of_a_phone_opens_and_closes(visit: Invite, rows: list[Dispatch]) -> None:
    page = visit(width=390).open("/dispatches")
    assert not page.get_by_role("link", name="Sandbox", exact=True).is_visible()
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Sandbox", exact=True).click()
    page.wait_for_url("**/sandbox")


def test_the_theme_is_kept(visit: Invite, rows: list[Dispatch]) -> None:
    page = visit().open("/dispatches")
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto(page.url)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"


def test_times_are_in_the_zone_of_the_browser(visit: Invite, rows: list[Dispatch]) -> None:
    visitor = visit()
    visitor.open("/dispatches")
    assert "CET" in visitor.open("/dispatches").locator("#live-line").inner_text()


def test_the_message_in_its_frame_can_do_nothing(visit: Invite, session: Db) -> None:
    row = make_dispatch(
        session,
        html='<p id="told">Hello</p><script>document.getElementById("told").textContent="owned"'
        '</script><img src="http://127.0.0.1:9/px" onerror="parent.document.title=1">',
    )
    session.commit()
    page = visit().open(f"/dispatches/{row.id}")
    frame = page.frame_locator("iframe")
    assert frame.locator("p").inner_text() == "Hello"
    assert page.title().startswith("(") or "Queued" in page.title()


def test_the_slash_key_goes_to_the_search(visit: Invite, rows: list[Dispatch]) -> None:
    page = visit().open("/dispatches")
    page.keyboard.press("/")
    page.keyboard.type("errored@")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/dispatches\?.*q="))
    assert page.locator("tbody tr:has(td)").count() == 1
    assert "errored@" not in page.url
