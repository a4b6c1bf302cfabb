"""Reads the body and the headers of an API request, bounded, before anything is looked at."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime

from flask import request
from werkzeug.exceptions import UnsupportedMediaType

from dashboard.dispatch.intake import limits_of
from dashboard.dispatch.request.accept import Ask
from dashboard.dispatch.request.fields import MISSING, Fields
from dashboard.dispatch.request.file_fields import new_file
from dashboard.dispatch.request.idempotency import body_hash, check_key
from dashboard.dispatch.request.json_body import TEXT_OCTETS, parse_object
from dashboard.dispatch.request.requests import InvalidRequest, NewFile, Problem
from dashboard.dispatch.request.validation import parse_request, send_at
from dashboard.settings import current

MOST_MESSAGES = 1000
ACTION_OCTETS = 64 * 1024
# As JSON a text can grow (\\u00e4); a file grows by a third, as base64.
_ESCAPED = 3


def json_object(*, largest: int | None = None) -> dict[str, object]:
    """Return the JSON object of the request's body.

    Args:
        largest: octets; by default what a message with its attachments may have.

    Raises:
        UnsupportedMediaType: it is declared as something else than JSON (415).
        RequestEntityTooLarge: it has more octets than it may have (413).
        InvalidRequest: it is no JSON object, or out of bounds.
    """
    if request.mimetype != "application/json":
        raise UnsupportedMediaType("Send JSON, with Content-Type: application/json.")
    files = current().attachment_max_bytes * 4 // 3
    request.max_content_length = largest or files + _ESCAPED * TEXT_OCTETS
    return parse_object(request.get_data(cache=False))


def one_ask() -> Ask:
    """Return the request for one message, with its idempotency key."""
    values = json_object()
    parsed = parse_request(values, limits_of(current()))
    key = idempotency_key()
    return Ask(parsed, key, body_hash(values)) if key else Ask(parsed)


def idempotency_key() -> str:
    """Return the key of the request, or nothing where it has none.

    Raises:
        InvalidRequest: it has one that cannot be used.
    """
    given = request.headers.get("Idempotency-Key")
    if given is None:
        return ""
    with suppress(UnicodeError):
        # WSGI hands on the octets of a header as Latin-1; what is not ASCII is meant as UTF-8.
        given = given.encode("latin-1").decode("utf-8")
    return check_key(given)


def one_file() -> NewFile:
    """Return the file that is to be stored.

    Raises:
        InvalidRequest: naming what is wrong with it.
    """
    fields = Fields(json_object(), [])
    file = new_file(fields, current().attachment_max_bytes)
    if file is None:
        raise InvalidRequest(fields.problems)
    return file


def many_asks() -> list[Ask | InvalidRequest]:
    """Return the requests of a batch in order, each valid or with what is wrong with it.

    With an idempotency key each message gets one of its own from it and its position: the same
    batch sent twice makes each message once.

    Raises:
        InvalidRequest: the batch itself is not one.
    """
    values = json_object()
    messages = values.get("messages")
    if not isinstance(messages, list) or set(values) != {"messages"}:
        raise InvalidRequest([Problem("messages", "Give an object with a list of messages alone.")])
    if not 1 <= len(messages) <= MOST_MESSAGES:
        text = f"It has {len(messages)} messages; a batch has 1 to {MOST_MESSAGES}."
        raise InvalidRequest([Problem("messages", text)])
    key = idempotency_key()
    return [_judge(message, key, position) for position, message in enumerate(messages)]


def _judge(message: object, key: str, position: int) -> Ask | InvalidRequest:
    if not isinstance(message, Mapping):
        return InvalidRequest([Problem(f"messages[{position}]", "Give an object.")])
    try:
        parsed = parse_request(message, limits_of(current()))
    except InvalidRequest as error:
        return error
    # No header can hold a line break, so that a single message never has such a key.
    return Ask(parsed, f"{key}\n{position}", body_hash(message)) if key else Ask(parsed)


def action_body(known: frozenset[str]) -> Mapping[str, object]:
    """Return the body of an action: none, or a small object of these fields.

    Raises:
        InvalidRequest: naming a field that the action does not have.
    """
    if not request.get_data():
        return {}
    values = json_object(largest=ACTION_OCTETS)
    unknown = sorted(set(values) - known)
    if unknown:
        raise InvalidRequest([Problem(name[:100], "There is no such field.") for name in unknown])
    return values


def new_time() -> tuple[datetime, int | None]:
    """Return when a dispatch is to go out from now on, and the version that was looked at.

    Raises:
        InvalidRequest: naming what is wrong with the body.
    """
    fields = Fields(action_body(frozenset({"send_at", "version"})), [])
    moment = send_at(fields)
    version = fields.whole_number("version", least=0, most=2**31 - 1)
    if moment is None and not fields.problems:
        fields.wrong("send_at", MISSING)
    if moment is None or fields.problems:
        raise InvalidRequest(fields.problems)
    return moment, version


def flag(values: Mapping[str, object], name: str) -> bool:
    """Return a true or false of an action's body.

    Raises:
        InvalidRequest: it is something else.
    """
    value = values.get(name, False)
    if not isinstance(value, bool):
        raise InvalidRequest([Problem(name, "Give true or false.")])
    return value


def line(values: Mapping[str, object], name: str) -> str:
    """Return a text of an action's body.

    Raises:
        InvalidRequest: it is something else.
    """
    value = values.get(name, "")
    if not isinstance(value, str):
        raise InvalidRequest([Problem(name, "Give it as text.")])
    return value


def is_dry_run() -> bool:
    """Return whether nothing may change.

    Raises:
        InvalidRequest: when the header is neither true nor false; then nothing must happen either.
    """
    given = request.headers.get("Dry-Run", "false").strip().lower()
    if given not in ("true", "false"):
        raise InvalidRequest([Problem("Dry-Run", "Give true or false.")])
    return given == "true"
