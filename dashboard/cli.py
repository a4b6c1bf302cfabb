"""The `wireroom` command: finds its subcommands and turns errors into a sentence and an exit code.

Exit codes: 0 done, 1 it failed, 2 called or configured wrongly.
"""

import importlib

import click
from typing_extensions import override

from dashboard import logs
from dashboard.commands import COMMANDS
from dashboard.settings import SettingsInvalid


class _Commands(click.Group):
    """A group that imports a command when it is asked for."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are listed."""
        return [*COMMANDS, *super().list_commands(ctx)]

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None when there is none of that name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        if not isinstance(command, click.Command):
            raise TypeError(f"{COMMANDS[cmd_name]} is not a click command")
        return command

    @override
    def invoke(self, ctx: click.Context) -> object:
        """Run the command; settings that cannot be used end it with 2 and no traceback."""
        try:
            return super().invoke(ctx)
        except SettingsInvalid as error:
            click.echo(str(error), err=True)
            ctx.exit(2)


@click.group(cls=_Commands)
def main() -> None:
    """Wireroom knows whether every email and SMS went out, and what to press when one did not."""
    # Until a process that runs on says otherwise: what a command prints is for the next command.
    logs.configure_for_commands()


if __name__ == "__main__":
    main()
