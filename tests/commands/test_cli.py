"""Every command of `wireroom` can be imported and explains itself."""

import pytest
from click.testing import CliRunner

from dashboard.cli import main
from dashboard.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_explains_itself(name: str) -> None:
    result = CliRunner().invoke(main, [name, "--help"])

    assert result.exit_code == 0
    assert f"Usage: main {name}" in result.output
    explanation = result.output.splitlines()[2].strip()
    assert len(explanation) > 20


def test_the_list_of_commands_names_each_with_a_sentence() -> None:
    output = CliRunner().invoke(main, ["--help"]).output

    assert all(f"  {name} " in output for name in COMMANDS)


def test_an_unknown_command_ends_with_2() -> None:
    assert CliRunner().invoke(main, ["no-such-command"]).exit_code == 2
