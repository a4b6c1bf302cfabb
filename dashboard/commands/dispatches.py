"""`wireroom send-email`, `send-sms`, `show`: hand over a message and read its story, in-process.

Nothing is sent here: a worker does that, as for every other message.
"""

import mimetypes
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

import dashboard.dispatch.tables  # noqa: F401  relationships need every model
from dashboard.access.models import Source
from dashboard.access.scope import OutOfScope, access_of_command
from dashboard.commands.database import command_session
from dashboard.commands.story_text import story_lines
from dashboard.database import new_id
from dashboard.dispatch.intake import SourceUnknown, find_source, limits_of
from dashboard.dispatch.request.accept import Ask, accept
from dashboard.dispatch.request.requests import InvalidRequest, NewFile
from dashboard.dispatch.request.rows import Asker
from dashboard.dispatch.request.validation import parse_request
from dashboard.dispatch.story.story import story_of
from dashboard.settings import SettingsInvalid, current

OWN_SOURCE = "command-line"
"""The source of messages that name none; made when it is first needed."""

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _common(command: Any) -> Any:
    """Add the options that both kinds of message have."""
    for option in (
        click.option("--priority", type=click.Choice(["high", "normal", "bulk"])),
        click.option("--send-at", help="Not before this time; with an offset: …T09:00:00+02:00."),
        click.option("--label", "labels", multiple=True, metavar="NAME=TEXT"),
        click.option("--target", metavar="TYPE:ID", help="What it is about."),
        click.option("--from", "sender", help="Sender instead of the source's own."),
        click.option("--source", help=f"Application it is sent for.  [default: {OWN_SOURCE}]"),
    ):
        command = option(command)
    return command


@click.command("send-email")
@click.option("--to", multiple=True, required=True, help="Address; may be given several times.")
@click.option("--cc", multiple=True)
@click.option("--bcc", multiple=True)
@click.option("--subject", required=True)
@click.option("--text", help="What it says; - reads standard input.")
@click.option("--html", help="The same as HTML; - reads standard input.")
@click.option("--attach", multiple=True, type=_FILE, help="A file to send along.")
@click.option("--inline", multiple=True, metavar="FILE:CID", help="An image the HTML names by cid:")
@_common
def send_email(**given: Any) -> None:
    """Hand over an email; prints the id of its dispatch, those of copies below it."""
    _send(
        {
            "channel": "email",
            "to": list(given["to"]),
            "cc": list(given["cc"]),
            "bcc": list(given["bcc"]),
            "subject": given["subject"],
            "text": _text(given["text"]),
            "html": _text(given["html"]),
            "attachments": [*map(_attached, given["attach"]), *map(_inline, given["inline"])],
        },
        given,
    )


@click.command("send-sms")
@click.option("--to", required=True, help="Number in E.164 form: +12025550143.")
@click.option("--body", help="What it says; - reads standard input.")
@click.option("--media-url", multiple=True)
@_common
def send_sms(**given: Any) -> None:
    """Hand over a text message; prints the id of its dispatch."""
    _send(
        {
            "channel": "sms",
            "to": given["to"],
            "body": _text(given["body"]),
            "media_url": list(given["media_url"]),
        },
        given,
    )


@click.command()
@click.argument("dispatch_id", metavar="ID")
def show(dispatch_id: str) -> None:
    """Tell the story of one dispatch; exits with 1 when there is none of this id."""
    with command_session() as session:
        try:
            story = story_of(session, uuid.UUID(dispatch_id), access_of_command())
        except (ValueError, OutOfScope):
            raise click.ClickException(f"There is no dispatch {dispatch_id!r}.") from None
        for line in story_lines(story):
            click.echo(line)


def _send(values: dict[str, object], given: Mapping[str, Any]) -> None:
    """Validate, store, publish, print the ids."""
    settings = current()
    if not settings.redis_url:
        raise SettingsInvalid("REDIS_URL is missing, and no embedded server runs. See README.")
    values |= {
        "from": given["sender"],
        "labels": dict(_pair(one, "=", "--label NAME=TEXT") for one in given["labels"]),
        "send_at": given["send_at"],
        "priority": given["priority"],
    }
    if given["target"]:
        values["target"] = dict(
            zip(("type", "id"), _pair(given["target"], ":", "--target TYPE:ID"), strict=True)
        )
    try:
        ask = Ask(parse_request(values, limits_of(settings)))
        with command_session() as session:
            source = _source(session, given["source"])
            answer = accept(session, ask, Asker(source, access_of_command().actor, settings))
    except InvalidRequest as error:
        raise click.UsageError(_explained(error)) from None
    except SourceUnknown as error:
        raise click.ClickException(str(error)) from None
    for one in (answer.id, *answer.copies):
        click.echo(str(one))
    if settings.public_base_url:
        click.echo(f"Watch it: {settings.public_base_url}/dispatches/{answer.id}", err=True)


def _source(session: Session, name: str | None) -> Source:
    if name is None:
        session.execute(
            insert(Source).values(id=new_id(), name=OWN_SOURCE).on_conflict_do_nothing()
        )
    return find_source(session, name or OWN_SOURCE)


def _explained(error: InvalidRequest) -> str:
    return "Nothing was accepted.\n" + "\n".join(
        f"  {one.field}: {one.message}" for one in error.problems
    )


def _pair(text: str, separator: str, form: str) -> tuple[str, str]:
    name, found, value = text.partition(separator)
    if not found:
        raise click.UsageError(f"{text!r} is not of the form {form}.")
    return name, value


def _text(given: str | None) -> str | None:
    return sys.stdin.read() if given == "-" else given


def _attached(path: Path) -> NewFile:
    return NewFile(path.name, _type(path), path.read_bytes())


def _inline(given: str) -> NewFile:
    name, found, content_id = given.rpartition(":")
    path = Path(name)
    if not found or not path.is_file():
        raise click.UsageError(f"{given!r} is not of the form FILE:CID with a file that is there.")
    return NewFile(path.name, _type(path), path.read_bytes(), inline=True, content_id=content_id)


def _type(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or ""
