"""`wireroom doctor`: shows every setting, tries every connection, says how to mend each."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import click
from pydantic import SecretStr

from dashboard.commands.examinations import Finding, Severity, examine
from dashboard.settings import Settings, SettingsInvalid, load_settings

_MARKS = {Severity.OK: "ok", Severity.WARNING: "warn", Severity.ERROR: "ERROR"}
_COLOURS = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.ERROR: "red"}
_VERDICTS = {
    Severity.OK: "Everything is in order.",
    Severity.WARNING: "It works; see the warnings.",
    Severity.ERROR: "Something is wrong; see the lines marked ERROR.",
}


@click.command()
def doctor() -> None:
    """Try every setting and connection; say what is wrong and how to mend it.

    Changes nothing, sends nothing, prints no secret. Exits with 1 when anything is wrong.
    """
    try:
        settings = load_settings()
    except SettingsInvalid as error:
        _show(Finding(Severity.ERROR, "settings", str(error)))
        raise SystemExit(1) from None
    for name, value in describe(settings):
        click.echo(f"      {name} = {value}")
    worst = Severity.OK
    for finding in examine(settings):
        _show(finding)
        worst = max(worst, finding.severity, key=list(Severity).index)
    click.echo(_VERDICTS[worst])
    raise SystemExit(1 if worst is Severity.ERROR else 0)


def describe(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield each setting's variable and its value, secrets only as "set" or "not set"."""
    for name, field in type(settings).model_fields.items():
        value = getattr(settings, name)
        if isinstance(value, SecretStr):
            shown = "set" if value.get_secret_value() else "not set"
        elif value is None or value == "":
            shown = "not set"
        else:
            shown = _without_password(str(value))
        yield str(field.validation_alias), shown


def _without_password(value: str) -> str:
    parts = urlsplit(value)
    if not parts.password:
        return value
    return parts._replace(netloc=f"…@{parts.netloc.rpartition('@')[2]}").geturl()


def _show(finding: Finding) -> None:
    mark = click.style(f"{_MARKS[finding.severity]:5}", fg=_COLOURS[finding.severity])
    click.echo(f"{mark} {finding.subject}: {finding.text}")
    if finding.mend:
        click.echo(f"      → {finding.mend}")
