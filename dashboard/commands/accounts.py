"""`wireroom user …`, `token …`, `setup-link`: who may come in, from this machine's console."""

import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import click
from sqlalchemy import func, select
from sqlalchemy.orm import Session, selectinload

from dashboard.access import activity, setup, users
from dashboard.access.models import Source, User
from dashboard.access.passwords import PasswordRefused, check_new, hash_password
from dashboard.access.permissions import Permission, Role
from dashboard.access.scope import Access, access_of_command
from dashboard.access.tokens import make_token
from dashboard.commands.arguments import DAYS, NAME
from dashboard.commands.database import command_session
from dashboard.settings import load_settings

_EVERYWHERE = "all sources"
# What an application needs to send, and to ask what became of it.
_USUAL = (
    Permission.DISPATCH_CREATE,
    Permission.DISPATCH_LIST,
    Permission.DISPATCH_READ,
    Permission.CONTENT_READ,
    Permission.DISPATCH_RETRY,
    Permission.DISPATCH_CANCEL,
    Permission.DISPATCH_RESEND,
    Permission.RECIPIENT_REVEAL,
)
_role = click.Choice([role.value for role in Role])
_source = click.option(
    "--source", type=NAME, help=f"The source it is for.  [default: {_EVERYWHERE}]"
)
_name = click.option("--name", type=NAME, default="", help="As pages show it.")
_given_role = click.option("--role", type=_role, default=Role.VIEWER.value, show_default=True)
_password = click.option(
    "--password-stdin", is_flag=True, help="Read the password from standard input."
)


@contextmanager
def _refusals() -> Iterator[None]:
    """Show what is refused as the sentence that it is."""
    try:
        yield
    except (users.EmailRefused, users.LastAdministrator, PasswordRefused) as problem:
        raise click.ClickException(str(problem)) from None


def _base_url() -> str:
    return load_settings().public_base_url or "http://127.0.0.1:8000"


@click.group()
def user() -> None:
    """Add people, give them roles, see who there is."""


@user.command("add")
@click.argument("email")
@_name
@_given_role
@_source
@_password
def add_user(email: str, *, name: str, role: str, source: str | None, password_stdin: bool) -> None:
    """Add a person with a password, which is asked for unless --password-stdin is given."""
    with _refusals():
        # Before the database is asked for anything: nothing waits while somebody types.
        hashed = _asked_password(users.checked_email(email), password_stdin=password_stdin)
        with command_session() as session:
            person = _added(session, email, name, role, source)
            person.password_hash = hashed
            session.commit()


@user.command("invite")
@click.argument("email")
@_name
@_given_role
@_source
def invite(email: str, *, name: str, role: str, source: str | None) -> None:
    """Add a person and print the link, valid for 24 h, with which they set a password."""
    with _refusals(), command_session() as session:
        person = _added(session, email, name, role, source)
        click.echo(setup.password_link(session, access_of_command(), person, _base_url()))


@user.command("grant")
@click.argument("email")
@click.argument("role", type=_role)
@_source
@click.option("--remove", is_flag=True, help="Take the role away; from the next request on.")
def grant(email: str, role: str, *, source: str | None, remove: bool) -> None:
    """Give a person a role, or take it away."""
    act = users.take if remove else users.give
    with _refusals(), command_session() as session:
        person, source_id = _person(session, email), _source_id(session, source)
        changed = act(session, access_of_command(), person, Role(role), source_id)
        session.commit()
    click.echo("Done." if changed else "That is how it was; nothing was changed.")


@user.command("link")
@click.argument("email")
def link(email: str) -> None:
    """Print a link, valid for 24 h, with which a person sets a new password."""
    with command_session() as session:
        person = _person(session, email)
        click.echo(setup.password_link(session, access_of_command(), person, _base_url()))


@user.command("off")
@click.argument("email")
def switch_off(email: str) -> None:
    """Let a person sign in no more; their sessions end at once."""
    with _refusals(), command_session() as session:
        users.switch_off(session, access_of_command(), _person(session, email))
        session.commit()
    click.echo("Done.")


@user.command("list")
def list_users() -> None:
    """Print everybody, one a line: email, whether active, roles."""
    with command_session() as session:
        names = {source.id: source.name for source in session.scalars(select(Source))}
        people = select(User).options(selectinload(User.grants)).order_by(User.email)
        for person in session.scalars(people):
            roles = ", ".join(
                sorted(
                    f"{one.role.value} on {names[one.source_id] if one.source_id else _EVERYWHERE}"
                    for one in person.grants
                )
            )
            state = "active" if person.active else "off"
            click.echo(f"{person.email}\t{state}\t{roles or 'no role'}")


@click.group()
def token() -> None:
    """Make API tokens, with which applications hand messages over."""


@token.command("add")
@click.argument("source", type=NAME)
@click.option("--name", type=NAME, default="", help="What uses it, as the activity names it.")
@click.option(
    "--permission",
    "permissions",
    multiple=True,
    type=click.Choice([permission.value for permission in Permission]),
    help="Instead of the usual ones; may be given more than once.",
)
@click.option("--expires-days", type=DAYS)
def add_token(
    source: str, *, name: str, permissions: tuple[str, ...], expires_days: float | None
) -> None:
    """Make a token of a source and print it, alone, on standard output.

    The source is made if there is none of this name. The token cannot be shown again.
    """
    source = source.strip()
    if not source:
        raise click.BadParameter("the name of a source is empty")
    chosen = [Permission(one) for one in permissions] or list(_USUAL)
    with command_session() as session:
        owner = users.find_source(session, source) or users.make_source(session, source)
        ends = timedelta(days=expires_days) if expires_days else None
        expires_at = session.scalar(select(func.now() + ends)) if ends else None
        text = make_token(session, owner, name, chosen, expires_at)
        _note_token(session, access_of_command(), owner, name)
        session.commit()
    click.echo(text)


def _note_token(session: Session, access: Access, owner: Source, name: str) -> None:
    activity.record(
        session, access, "make token", "source", str(owner.id), owner.id, details={"name": name}
    )


@click.command("setup-link")
def setup_link() -> None:
    """Print the one-time link, valid for 24 h, with which the first administrator is made.

    Prints nothing on standard output if there is an administrator.
    """
    with command_session() as session:
        found = setup.setup_link(session, _base_url())
    if found:
        click.echo(f"Set up the first administrator: {found}")
    else:
        click.echo("There is an administrator, so there is no setup link.", err=True)


def _person(session: Session, email: str) -> User:
    person = users.find_user(session, email)
    if person is None:
        raise click.ClickException("There is no user with this email. See: wireroom user list")
    return person


def _source_id(session: Session, name: str | None) -> uuid.UUID | None:
    if name is None:
        return None
    source = users.find_source(session, name)
    if source is None:
        raise click.ClickException(
            "There is no source of this name. Make it with: wireroom token add NAME"
        )
    return source.id


def _added(session: Session, email: str, name: str, role: str, source: str | None) -> User:
    """Add a person with a role. Does not commit."""
    source_id = _source_id(session, source)
    person = users.add_user(session, access_of_command(), email, name)
    users.give(session, access_of_command(), person, Role(role), source_id)
    return person


def _asked_password(email: str, *, password_stdin: bool) -> str:
    """Return the hash of a password that somebody types, or of the first line on stdin."""
    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    check_new(password, email)
    return hash_password(password)
