"""Guards of the templates: they compile, keep their size, and their fragments fit their places."""

import re
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy.orm import Session, scoped_session

from dashboard.app import ROOT
from dashboard.dispatch.states import Failure, State
from tests.factories import make_dispatch
from tests.pages.desk import sign_in

TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
IDS = [str(path.relative_to(ROOT / "templates")) for path in TEMPLATES]
# The document inside the sandboxed frame is the message itself, cleaned, under its own policy.
FRAMED = ("framed.html",)
Db = scoped_session[Session]


@pytest.mark.parametrize("path", TEMPLATES, ids=IDS)
def test_it_compiles_and_keeps_its_size(app: Flask, path: Path) -> None:
    name = str(path.relative_to(ROOT / "templates"))
    app.jinja_env.get_template(name)
    lines = len(path.read_text().splitlines())
    assert lines <= (60 if path.name.startswith("_") else 120)


@pytest.mark.parametrize("path", TEMPLATES, ids=IDS)
def test_nothing_is_inline_and_nothing_is_called_safe(path: Path) -> None:
    source = path.read_text()
    assert not re.search(r"<style\b|\sstyle=|\son\w+=|javascript:", source)
    assert not re.search(r"<script(?![^>]*\bsrc=)", source)
    assert not re.search(r"\|\s*safe\b", source) or path.name in FRAMED
    assert "hx-on" not in source
    assert not re.search(r'hx-trigger="[^"]*\[', source), "trigger filters need eval"


@pytest.mark.parametrize(
    "path", [path for path in TEMPLATES if path.name.startswith("_")], ids=lambda path: path.stem
)
def test_a_fragment_has_one_root_that_is_named_like_it(path: Path) -> None:
    source = re.sub(r"{[%#].*?[%#]}", "", path.read_text(), flags=re.S)
    roots = _roots(source)
    assert len(roots) == 1, roots
    name = path.stem.removeprefix("_")
    assert re.search(rf'id="({path.parent.name}-)?{name}"', roots[0])


def _roots(source: str) -> list[str]:
    """The opening tags that stand in no other element."""
    void = {"input", "br", "img", "meta", "link", "hr"}
    depth, roots = 0, []
    for tag in re.finditer(r"<(/?)([a-z0-9]+)([^>]*)>", source):
        closing, name, rest = tag.groups()
        if closing:
            depth -= 1
        elif name not in void and not rest.endswith("/"):
            if depth == 0:
                roots.append(tag[0])
            depth += 1
    assert depth == 0, "an element is not closed"
    return roots


def test_every_address_that_htmx_asks_answers_with_what_it_is_to_replace(
    app: Flask, session: Db
) -> None:
    desk = sign_in(app, session)
    rows = [
        make_dispatch(session, state=state, failure=failure)
        for state, failure in (
            (State.QUEUED, Failure.NONE),
            (State.ERRORED, Failure.EXHAUSTED),
            (State.STALLED, Failure.NONE),
        )
    ]
    session.commit()
    for page in ("/dispatches", *(f"/dispatches/{row.id}" for row in rows)):
        html = desk.get(page).text
        polls = re.findall(r'hx-get="([^"]+)"', html)
        assert polls, page
        for address in polls:
            plain = address.replace("&amp;", "&").split("stamp=")[0]
            answer = desk.get(plain, htmx=True)
            assert answer.status_code == 200, plain
            assert 'id="live"' in answer.text
        presses = re.findall(r'hx-post="([^"]+)" hx-target="#(\w+)"', html)
        assert presses, page
        for address, target in presses:
            answer = desk.press(page, address, htmx=True, version="0")
            assert answer.status_code == 409, address
            assert answer.text.lstrip().startswith(f'<div id="{target}"'), address
