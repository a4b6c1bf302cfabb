"""add_email() and add_sms(): requests for messages, in the caller's own transaction.

The API and the command line, which commit here, use `request/accept.py`. What a request may say is
in `request/validation.py`, the rows in `request/rows.py`. Does not send: a worker does.
"""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from sqlalchemy import select
from typing_extensions import Unpack

from dashboard.access.models import Source
from dashboard.database import AnySession
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.request.outbox import follow
from dashboard.dispatch.request.request_files import missing_files, plan, store_files
from dashboard.dispatch.request.rows import Asker, write_rows
from dashboard.dispatch.request.validation import Limits, parse_request
from dashboard.settings import Settings, current


class SourceUnknown(LookupError):
    """There is no source of this name."""


def limits_of(settings: Settings) -> Limits:
    """Return what this installation allows in a request."""
    return Limits(max_file_bytes=settings.attachment_max_bytes)


class CommonArguments(TypedDict, total=False):
    """What `add_email` and `add_sms` both take, as in the API."""

    kind: str
    target: Mapping[str, str]
    labels: Mapping[str, str]
    send_at: object
    valid_for_seconds: int
    priority: str


class EmailArguments(CommonArguments, total=False):
    """What `add_email` takes besides recipient and subject, as in the API; `from_` is From."""

    from_: str
    text: str
    html: str
    cc: Sequence[str]
    bcc: Sequence[str]
    reply_to: Sequence[str]
    headers: Mapping[str, str]
    attachments: Sequence[object]


class SmsArguments(CommonArguments, total=False):
    """What `add_sms` takes besides number and body, as in the API; `from_` is the sender."""

    from_: str
    media_url: Sequence[str]


def add_email(
    *,
    session: AnySession,
    source: str | Source,
    to: str | Sequence[str],
    subject: str,
    **fields: Unpack[EmailArguments],
) -> Dispatch:
    """Add an email to the caller's own transaction; it goes out when that commits.

    Does not commit. A roll-back, of a savepoint too, leaves nothing and sends nothing. Files are
    given as `NewFile` (bytes) or as ids of uploaded ones.

    Returns:
        the dispatch of the first recipient; those of the others are its copies.

    Raises:
        InvalidRequest: every problem, each with its field.
        SourceUnknown: there is no such source.
    """
    return _add(session, source, {"channel": "email", "to": to, "subject": subject, **fields})


def add_sms(
    *,
    session: AnySession,
    source: str | Source,
    to: str,
    body: str,
    **fields: Unpack[SmsArguments],
) -> Dispatch:
    """Add a text message to the caller's own transaction; it goes out when that commits.

    Does not commit; see `add_email`, also for what is raised.
    """
    return _add(session, source, {"channel": "sms", "to": to, "body": body, **fields})


def _add(session: AnySession, source: str | Source, values: dict[str, object]) -> Dispatch:
    settings = current()
    if "from_" in values:
        values["from"] = values.pop("from_")
    request = parse_request(values, limits_of(settings))
    found = find_source(session, source)
    for problem in missing_files(session, found.id, [request]).values():
        raise problem
    planned, storage_keys = store_files(plan(request), settings)
    follow(session, settings, storage_keys=storage_keys)
    due = write_rows(session, [planned], Asker(found, f"source:{found.name}", settings))
    follow(session, settings, by_queue=due)
    return session.get_one(Dispatch, planned.ids[0])


def find_source(session: AnySession, source: str | Source) -> Source:
    """Return a source by name.

    Raises:
        SourceUnknown: there is none of this name.
    """
    if isinstance(source, Source):
        session.flush()  # a new one gets its id, and its row comes first
        return source
    found = session.scalars(select(Source).where(Source.name == source)).first()
    if found is None:
        raise SourceUnknown(
            f"There is no source named {source!r}. Make it on the settings page, or with"
            " wireroom token add."
        )
    return found
