"""The README says what is: settings, email services, the drawing, queues, pictures."""

import re
from pathlib import Path

from dashboard.dispatch.drawing import drawing
from dashboard.dispatch.states import LABELS
from dashboard.providers.anymail_esps import ESPS
from dashboard.providers.tracking import STRATEGIES
from dashboard.queueing.names import Queue
from dashboard.settings import Settings

README = (Path(__file__).resolve().parent.parent / "README.md").read_text()


def test_every_setting_has_its_row_and_every_row_is_a_setting() -> None:
    section = README.split("## Settings")[1].split("\n## ")[0]
    rows = set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE))
    assert rows == {str(field.validation_alias) for field in Settings.model_fields.values()}


def test_the_drawing_is_made_from_the_table() -> None:
    assert drawing() in README


def test_every_state_is_explained_under_its_label() -> None:
    for state, label in LABELS.items():
        assert f"| `{state.value}` | {label} |" in README


def test_every_queue_has_a_worker_in_the_run_table() -> None:
    for queue in Queue:
        assert f"`wireroom worker {queue.value}`" in README


def test_what_replaced_each_limitation_is_there() -> None:
    section = README.split("## What replaced the limitations")[1].split("\n## ")[0]
    modules = re.findall(r"^\| [^|`]+.*\| `(dashboard/[a-z_/]+\.py)` \|$", section, re.MULTILINE)
    assert len(modules) == 7
    for module in modules:
        assert (Path(__file__).resolve().parent.parent / module).is_file(), module


def test_every_tracking_strategy_is_named_with_its_setting() -> None:
    [row] = re.findall(r"^\| `WIREROOM_EMAIL_TRACKING_STRATEGY` .*$", README, re.MULTILINE)
    assert set(STRATEGIES) < set(re.findall(r"`(\w+)`", row))


def test_every_email_service_is_there_with_all_its_settings() -> None:
    section = README.split("### Email services")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^\| `anymail:(\w+)` \|(.*)$", section, re.MULTILINE))
    assert set(rows) == set(ESPS)
    for name, row in rows.items():
        esp = ESPS[name]
        known = {f"ANYMAIL_{esp.prefix}", *esp.required, *esp.optional}
        assert set(re.findall(r"`(\w+)`", row)) == known | set(esp.secrets if esp.view else ())


def test_every_picture_is_there() -> None:
    for address in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README):
        assert (Path(__file__).resolve().parent.parent / address).is_file(), address
