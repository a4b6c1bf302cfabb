"""Rules of the house that no tool knows, each checked over all the code.

What the README must name is in `test_readme.py`, the migrations in `test_migrations.py`.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from flask import Flask

from dashboard.queueing.names import JobPath, Queue

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for room in ("dashboard", "jobs") for path in (ROOT / room).rglob("*.py"))
MODULE_LINES = 300
FUNCTION_LINES = 50
WRITER = "dashboard/dispatch/transitions.py"
CATCHES_EVERYTHING = {"jobs/worker.py", "dashboard/pages/errors.py"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in SOURCES:
        yield name_of(path), ast.parse(path.read_text())


def is_state(target: ast.expr) -> bool:
    """Return whether something is the state of a thing that is not the module's own object."""
    if isinstance(target, ast.Tuple):
        return any(map(is_state, target.elts))
    owner = target.value if isinstance(target, ast.Attribute) else None
    its_own = isinstance(owner, ast.Name) and owner.id == "self"
    return isinstance(target, ast.Attribute) and target.attr == "state" and not its_own


def state_writes(tree: ast.Module) -> list[int]:
    """Return the lines that assign a state, or put one into the values of an UPDATE."""
    lines = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets) if any(map(is_state, targets)):
                lines.append(node.lineno)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target) if is_state(target):
                lines.append(node.lineno)
            case ast.Call(func=ast.Name(id="setattr"), args=[_, ast.Constant(value="state"), _]):
                lines.append(node.lineno)
            case ast.Call(func=ast.Attribute(attr="values"), keywords=keywords) if any(
                one.arg == "state" for one in keywords
            ):
                lines.append(node.lineno)
    return lines


def test_only_the_writer_of_transitions_assigns_a_state() -> None:
    written = {name: lines for name, tree in trees() if (lines := state_writes(tree))}
    assert set(written) == {WRITER}, written


@pytest.mark.parametrize(
    "code",
    [
        "row.state = State.QUEUED",
        "locked.dispatch.state: State = State.QUEUED",
        "setattr(row, 'state', State.QUEUED)",
        "update(Dispatch).values(state=State.QUEUED)",
        "first.state, second = State.QUEUED, 1",
    ],
)
def test_the_guard_of_the_state_sees_every_way_to_write_it(code: str) -> None:
    assert state_writes(ast.parse(code)) == [1]


def test_only_the_worker_and_the_error_pages_catch_everything() -> None:
    catching = {
        name
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception"))
    }
    assert catching <= CATCHES_EVERYTHING


def test_modules_fit_on_a_few_screens() -> None:
    long = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: lines for name, lines in long.items() if lines > MODULE_LINES} == {}


def length_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the lines of a function without its docstring."""
    docstring = function.body[0] if ast.get_docstring(function) is not None else None
    lines = (function.end_lineno or 0) - function.lineno + 1
    return lines - ((docstring.end_lineno or 0) - docstring.lineno + 1 if docstring else 0)


def test_functions_fit_on_a_screen() -> None:
    long = {
        f"{name}:{node.name}": length_of(node)
        for name, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and length_of(node) > FUNCTION_LINES
    }
    assert long == {}


def test_nothing_of_ours_is_imported_inside_a_function() -> None:
    hidden = {
        f"{name}:{node.lineno}"
        for name, tree in trees()
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").partition(".")[0] in ("dashboard", "jobs")
    }
    assert hidden == set()


@pytest.mark.parametrize("path", list(JobPath))
def test_every_job_path_is_something_to_call(path: JobPath) -> None:
    module, _, function = path.value.rpartition(".")
    assert callable(getattr(import_module(module), function))


def test_every_queue_has_a_worker_in_the_procfile() -> None:
    procfile = (ROOT / "Procfile").read_text()
    served = set(re.findall(r"wireroom worker (\S+)", procfile))
    assert served == {queue.value for queue in Queue}


def test_every_route_asks_for_a_permission_or_says_why_it_is_public(app: Flask) -> None:
    unguarded = [
        rule.endpoint
        for rule in app.url_map.iter_rules()
        if not hasattr(app.view_functions[rule.endpoint], "permission")
        and not getattr(app.view_functions[rule.endpoint], "public", "")
        and rule.endpoint != "static"
    ]
    assert unguarded == []
