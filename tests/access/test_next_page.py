"""Where signing in may lead: pages of this site."""

from urllib.parse import unquote

import pytest

from dashboard.access.next_page import safe_next

HOSTILE = (
    "https://evil.example",
    "//evil.example",
    "////evil.example",
    "/\\evil.example",
    "/%09/evil.example",
    "%20//evil.example",
    "%00//evil.example",
    "https:evil.example",
    "javascript:alert(1)",
    "/ok%0d%0aSet-Cookie:a=b",
    "/login?next=/login",
    "/login",
    "/LOGIN/",
    "/%6cogin",
    "/logout",
    "/setup/abc",
    "/%2fevil.example",
    "/%5cevil.example",
    "\\\\evil.example",
    "evil.example",
    "",
    "/\u2028/evil.example",
    "/" + "a" * 3000,
    "http://localhost/dispatches",
)


@pytest.mark.parametrize("value", HOSTILE)
def test_anything_else_leads_home(value: str) -> None:
    assert safe_next(value) == "/"
    assert safe_next(unquote(value)) == "/"


@pytest.mark.parametrize(
    "value",
    ["/", "/dispatches?view=all&label=a%3Db", "/loginsight", "/targets/invitation/482", "/x//y"],
)
def test_a_page_of_this_site_is_kept(value: str) -> None:
    assert safe_next(value) == value
