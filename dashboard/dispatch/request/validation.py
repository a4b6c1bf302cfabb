"""Turns an untrusted mapping (API, command line, Python) into a request, or says what is wrong.

Pure: no database, no DNS, no clock. Whether a source or an uploaded file exists is for `intake.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from dashboard.dispatch.request.addresses import (
    Address,
    AddressRefused,
    parse_address,
    parse_number,
    parse_sms_sender,
)
from dashboard.dispatch.request.fields import Fields, line_problem
from dashboard.dispatch.request.file_fields import read_files
from dashboard.dispatch.request.json_body import check_bounds
from dashboard.dispatch.request.requests import QUEUES, Common, EmailRequest, Request, SmsRequest
from dashboard.dispatch.request.segments import composed, count_segments
from dashboard.dispatch.states import Channel
from dashboard.providers.mime_headers import Unsendable, unstructured
from dashboard.queueing.names import Queue

MOST_RECIPIENTS = 50
MOST_LABELS = 50
MOST_HEADERS = 50
MOST_MEDIA = 10
SUBJECT_OCTETS = 998
SMS_CHARACTERS = 1600
LONGEST_WAIT = timedelta(days=366)
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,70}")
_KIND = re.compile(r"[a-z0-9][a-z0-9_.-]*(/[a-z0-9][a-z0-9_.-]*)*")
_OURS = frozenset(
    {
        *("from", "sender", "to", "cc", "bcc", "reply-to", "subject", "message-id", "date"),
        *("mime-version", "received", "return-path", "delivered-to", "dkim-signature"),
        "authentication-results",
    }
)
_OUR_FAMILIES = ("content-", "resent-", "arc-", "x-wireroom-")

_COMMON = frozenset(
    {
        *("channel", "kind", "args", "target", "labels", "send_at", "valid_for_seconds"),
        "priority",
    }
)
EMAIL_FIELDS = _COMMON | {
    *("to", "cc", "bcc", "from", "reply_to", "subject", "text", "html", "headers"),
    "attachments",
}
SMS_FIELDS = _COMMON | {"to", "from", "body", "media_url"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What depends on the installation.

    Attributes:
        max_file_bytes: for one file, and for all new files of a message together.
        smtputf8: whether the email route carries local parts that are not ASCII.
    """

    max_file_bytes: int = 25 * 1024 * 1024
    smtputf8: bool = False


def parse_request(values: Mapping[str, object], limits: Limits = Limits()) -> Request:
    """Return the request that a mapping describes; its `channel` says which kind.

    Raises:
        InvalidRequest: with every problem found, each naming its field.
    """
    check_bounds(values)
    fields = Fields(values, [])
    channel = values.get("channel")
    if channel == Channel.EMAIL:
        return _email(fields, limits)
    if channel == Channel.SMS:
        return _sms(fields)
    fields.wrong("channel", "Give email or sms.")
    fields.raise_problems()
    raise AssertionError("unreachable")


def _email(fields: Fields, limits: Limits) -> EmailRequest:
    fields.refuse_unknown(EMAIL_FIELDS)

    def one(value: str) -> Address:
        return parse_address(value, smtputf8=limits.smtputf8)

    def named(value: str) -> str:
        return parse_address(value, named=True, smtputf8=limits.smtputf8).header()

    request = EmailRequest(
        to=fields.parsed_items("to", one, most=MOST_RECIPIENTS),
        cc=fields.parsed_items("cc", one, most=MOST_RECIPIENTS),
        bcc=fields.parsed_items("bcc", one, most=MOST_RECIPIENTS),
        sender="".join(fields.parsed_items("from", named, most=1)),
        subject=_subject(fields),
        text=fields.text("text"),
        html=fields.text("html"),
        reply_to=fields.parsed_items("reply_to", named, most=MOST_RECIPIENTS),
        headers=_headers(fields),
        files=read_files(fields, "attachments", limits.max_file_bytes),
        common=_common(fields),
    )
    _check_email(fields, request)
    fields.raise_problems()
    return request


def _check_email(fields: Fields, request: EmailRequest) -> None:
    if not fields.values.get("to"):
        fields.wrong("to", "It is missing: give the address it goes to.")
    if not (fields.values.get("text") or fields.values.get("html") or request.files):
        fields.wrong("text", "The message is empty: give text, html or both.")
    if len(request.recipients) > MOST_RECIPIENTS:
        fields.wrong("to", f"With cc and bcc it goes to more than {MOST_RECIPIENTS} addresses.")
    seen = [address.normalised for address in request.recipients]
    if len(set(seen)) < len(seen):
        fields.wrong("to", "An address is there twice in to, cc and bcc; name each once.")
    content_ids = [file.content_id for file in request.files if file.content_id]
    if len(set(content_ids)) < len(content_ids):
        fields.wrong("attachments", "Two files have the same content_id; make them differ.")


def _subject(fields: Fields) -> str:
    subject = fields.line("subject", required=True, octets=SUBJECT_OCTETS)
    return subject if _can_stand(fields, "subject", subject) else ""


def _headers(fields: Fields) -> Mapping[str, str]:
    read: dict[str, str] = {}
    inner = Fields(fields.mapping("headers", most=MOST_HEADERS), fields.problems, "headers.")
    for name in inner.values:
        lower = name.lower()
        if not _HEADER_NAME.fullmatch(name):
            fields.wrong("headers", "It has a name that is not a header name (letters, digits, -).")
        elif lower in _OURS or lower.startswith(_OUR_FAMILIES):
            inner.wrong(name, "Wireroom or the mail server writes this header; leave it out.")
        elif lower in {one.lower() for one in read}:
            inner.wrong(name, "It is there twice; give each header once.")
        else:
            value = inner.line(name)
            if _can_stand(inner, name, value):
                read[name] = value
    return read


def _can_stand(fields: Fields, name: str, value: str) -> bool:
    """Return whether a value can be written as a header; note it where it cannot."""
    try:
        unstructured("field", value)
    except Unsendable:
        fields.wrong(name, "It holds a word that is too long for a header; put spaces into it.")
        return False
    return True


def _sms(fields: Fields) -> SmsRequest:
    fields.refuse_unknown(SMS_FIELDS)
    numbers = fields.parsed_items("to", parse_number, most=1)
    senders = fields.parsed_items("from", parse_sms_sender, most=1)
    body = composed(fields.text("body"))
    media = fields.parsed_items("media_url", _media_url, most=MOST_MEDIA)
    common = _common(fields)
    if not fields.values.get("to"):
        fields.wrong("to", "It is missing: give the number it goes to.")
    if not body.strip() and not fields.values.get("media_url") and "body" not in _named(fields):
        fields.wrong("body", "The message is empty: give a body or a media_url.")
    if len(body) > SMS_CHARACTERS:
        fields.wrong(
            "body", f"It has {len(body)} characters; at most {SMS_CHARACTERS} are possible."
        )
    fields.raise_problems()
    return SmsRequest(
        to=numbers[0],
        body=body,
        segments=count_segments(body),
        sender="".join(senders),
        media_urls=media,
        common=common,
    )


def _named(fields: Fields) -> set[str]:
    return {problem.field for problem in fields.problems}


def _media_url(value: str) -> str:
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable or len(value) > 2000 or not value.isascii() or " " in value:
        raise AddressRefused("Give an http or https URL of at most 2,000 ASCII characters.")
    return value


def _common(fields: Fields) -> Common:
    target = Fields(fields.mapping("target", most=10), fields.problems, f"{fields.prefix}target.")
    target.refuse_unknown(frozenset({"type", "id"}))
    has_target = bool(target.values)
    return Common(
        kind=_kind(fields),
        target_type=target.line("type", required=has_target, octets=200),
        target_id=target.line("id", required=has_target, octets=200),
        labels=_labels(fields),
        send_at=send_at(fields),
        valid_for=_valid_for(fields),
        queue=_queue(fields),
    )


def _kind(fields: Fields) -> str:
    kind = fields.line("kind", octets=100) or "message"
    if not _KIND.fullmatch(kind):
        fields.wrong("kind", "Give lower-case words and digits, with / between families.")
    if fields.values.get("args"):
        fields.wrong(
            "args",
            "They are for kinds that registered code builds (WIREROOM_KINDS), and this kind is"
            " none; give the content instead.",
        )
    return kind


def _labels(fields: Fields) -> Mapping[str, str]:
    given = fields.mapping("labels", most=MOST_LABELS)
    inner = Fields(given, fields.problems, f"{fields.prefix}labels.")
    read = {}
    for name in given:
        if not name or line_problem(name) or len(name) > 100:
            fields.wrong("labels", "It has a name that is empty, too long or not one line.")
        else:
            read[name] = inner.line(name, octets=500)
    return read


def send_at(fields: Fields) -> datetime | None:
    """Read the time before which a message does not go out; None is now."""
    given = fields.values.get("send_at")
    moment = given if isinstance(given, datetime) else None
    if moment is None and not (text := fields.line("send_at", octets=64)):
        return None
    try:
        moment = moment or datetime.fromisoformat(text)
        offset = moment.utcoffset()
    except ValueError:
        fields.wrong("send_at", "Give a time such as 2026-12-01T09:00:00+02:00.")
        return None
    if offset is None:
        fields.wrong("send_at", "It has no offset; write one, such as +02:00 or Z.")
        return None
    if not datetime(1971, 1, 1) < moment.replace(tzinfo=None) < datetime(9000, 1, 1):  # noqa: DTZ001  only the year counts
        fields.wrong("send_at", "Its year cannot be right.")
        return None
    return moment


def _valid_for(fields: Fields) -> timedelta | None:
    most = int(LONGEST_WAIT.total_seconds())
    seconds = fields.whole_number("valid_for_seconds", least=1, most=most)
    return None if seconds is None else timedelta(seconds=seconds)


def _queue(fields: Fields) -> Queue:
    priority = fields.line("priority", octets=20) or "normal"
    if priority not in QUEUES:
        fields.wrong("priority", "Give high, normal or bulk.")
    return QUEUES.get(priority, Queue.DEFAULT)
