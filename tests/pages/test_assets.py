"""Static files: ours by fingerprint, those of others with the bytes that their hash names."""

import base64
import gzip
import hashlib
import re

import pytest
from flask import Flask
from flask.testing import FlaskClient

from dashboard.pages.assets import SCRIPTS, STATIC, Script, asset, scripts
from dashboard.pages.security import content_security_policy
from dashboard.settings import Settings, use


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.local)
def test_the_local_copy_has_the_bytes_of_the_cdn(script: Script) -> None:
    digest = hashlib.sha384((STATIC / script.local).read_bytes()).digest()
    assert script.integrity == f"sha384-{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda one: one.local)
def test_the_policy_allows_the_cdn_by_full_path_only(script: Script) -> None:
    assert script.cdn in content_security_policy(cdn=True)
    assert script.cdn not in content_security_policy(cdn=False)
    assert "https://cdn.jsdelivr.net " not in content_security_policy(cdn=True)


def test_assets_local_asks_nobody_else(app: Flask, settings: Settings) -> None:
    with app.test_request_context():
        for name, is_remote in (("cdn", True), ("local", False)):
            use(settings.model_copy(update={"assets": name}))
            try:
                tags = scripts()
            finally:
                use(settings)
            assert [one.is_remote for one in tags] == [is_remote] * 2
            assert [one.url.startswith("https://") for one in tags] == [is_remote] * 2
            assert all(one.local.startswith("/static/") for one in tags)


def test_a_file_with_its_fingerprint_is_kept_for_long(app: Flask, client: FlaskClient) -> None:
    with app.test_request_context():
        address = asset("desk.css")
    with client.get(address) as kept, client.get("/static/desk.css") as asked_again:
        assert "immutable" in kept.headers["Cache-Control"]
        assert asked_again.headers["Cache-Control"] == "no-cache"


def test_every_icon_that_a_template_names_is_drawn(app: Flask) -> None:
    drawn = set(re.findall(r'<symbol id="(\w+)"', (STATIC / "icons.svg").read_text()))
    named: set[str] = set()
    for template in STATIC.parent.joinpath("templates").rglob("*.html"):
        named |= set(re.findall(r'\bicon\("(\w+)"\)', template.read_text()))
    assert named
    assert named <= drawn


def test_the_weight_of_a_page_with_its_scripts_stays_below_60_kb() -> None:
    files = ("desk.css", "app.js", *(one.local for one in SCRIPTS))
    weight = sum(len(gzip.compress((STATIC / name).read_bytes())) for name in files)
    assert weight < 45_000
