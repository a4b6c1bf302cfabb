"""An `Email` as the octets that go over SMTP: RFC 5322 headers and a MIME body, CRLF line ends.

Everything is 7-bit, so that no server needs 8BITMIME. Never writes a Bcc. Files come back byte for
byte. Does not talk to a server: see `smtp`.
"""

import re
from dataclasses import dataclass
from email.utils import format_datetime

from dashboard.clock import now
from dashboard.providers.base import Email, File
from dashboard.providers.mime_headers import (
    Mailbox,
    Unsendable,
    address_list,
    disposition,
    identifier,
    one_line,
    parse_mailbox,
    unstructured,
)
from dashboard.providers.mime_parts import Part, binary_part, multipart, text_part

__all__ = ["Rendered", "Unsendable", "render"]

_HEADER_NAME = re.compile(r"^[!-9;-~]{1,70}$")
_CONTENT_TYPE = re.compile(r"^([A-Za-z0-9!#$&^_.+-]{1,60})/([A-Za-z0-9!#$&^_.+-]{1,80})$")
_CHARSET = re.compile(r";\s*charset=\"?([A-Za-z0-9_.:-]{1,40})\"?", re.IGNORECASE)
_OURS = frozenset(
    {
        "bcc",
        "cc",
        "content-disposition",
        "content-id",
        "content-transfer-encoding",
        "content-type",
        "date",
        "from",
        "message-id",
        "mime-version",
        "reply-to",
        "resent-bcc",
        "subject",
        "to",
    }
)


@dataclass(frozen=True, slots=True)
class Rendered:
    """What SMTP needs to send one email.

    Attributes:
        mail_from, recipient: the envelope, with ASCII domains.
        content: the message with CRLF line ends, before dot-stuffing.
        needs_smtputf8: whether an address in it can be carried only by a server with SMTPUTF8.
    """

    mail_from: str
    recipient: str
    content: bytes
    needs_smtputf8: bool


def render(email: Email) -> Rendered:
    """Write `email` as MIME.

    Raises:
        Unsendable: a field cannot be written: a line break in a header, not an address, a header
            that only this module may write (Bcc among them).
    """
    sender = parse_mailbox("sender", email.sender)
    recipient = parse_mailbox("recipient", email.recipient)
    shown = {
        "From": (sender,),
        "To": _mailboxes("To", email.to) or ((recipient,) if not email.cc else ()),
        "Cc": _mailboxes("Cc", email.cc),
        "Reply-To": _mailboxes("Reply-To", email.reply_to),
    }
    headers = [
        (name, address_list(name, mailboxes)) for name, mailboxes in shown.items() if mailboxes
    ]
    headers += _headers(email)
    everybody = (recipient, *(mailbox for mailboxes in shown.values() for mailbox in mailboxes))
    return Rendered(
        mail_from=sender.address,
        recipient=recipient.address,
        content=_body(email).octets(headers),
        needs_smtputf8=any(mailbox.needs_smtputf8 for mailbox in everybody),
    )


def _mailboxes(field: str, values: tuple[str, ...]) -> tuple[Mailbox, ...]:
    return tuple(parse_mailbox(field, value) for value in values)


def _headers(email: Email) -> list[tuple[str, str]]:
    headers = [
        ("Subject", unstructured("Subject", email.subject)),
        ("Date", format_datetime(now())),
        ("MIME-Version", "1.0"),
    ]
    if email.message_id:
        headers.append(("Message-ID", identifier("Message-ID", email.message_id)))
    for name, value in email.headers.items():
        if not _HEADER_NAME.match(name):
            raise Unsendable("An additional header has a name that cannot stand in a message.")
        if name.lower() in _OURS:
            raise Unsendable(f"The header {name} cannot be given as an additional header.")
        headers.append((name, unstructured(name, value)))
    return headers


def _body(email: Email) -> Part:
    """Return mixed(alternative(text, related(html, inline)), attachments), as far as needed."""
    inline = [file for file in email.files if file.content_id and email.html]
    attached = [file for file in email.files if file not in inline]
    alternatives = []
    if email.text or not email.html:
        alternatives.append(text_part("text", "plain", email.text))
    if email.html:
        html = text_part("HTML", "html", email.html)
        related = [html, *map(_file_part, inline)]
        alternatives.append(multipart("related", related, root="text/html") if inline else html)
    whole = alternatives[0] if len(alternatives) == 1 else multipart("alternative", alternatives)
    return multipart("mixed", [whole, *map(_file_part, attached)]) if attached else whole


def _file_part(file: File) -> Part:
    headers = [
        ("Content-Type", _content_type(file.content_type)),
        (
            "Content-Disposition",
            disposition("inline" if file.content_id else "attachment", file.filename),
        ),
    ]
    if file.content_id:
        headers.append(("Content-ID", identifier("content id", file.content_id)))
    return binary_part(headers, file.content)


def _content_type(given: str) -> str:
    """Return a Content-Type value; a type that readers would unpack becomes neutral."""
    one_line("content type of a file", given)
    match = _CONTENT_TYPE.match(given.split(";")[0].strip())
    # Readers open message/… and multipart/… and no longer give back the bytes of the file.
    if match is None or match[1].lower() in ("message", "multipart"):
        return "application/octet-stream"
    charset = _CHARSET.search(given) if match[1].lower() == "text" else None
    return f'{match[0]}; charset="{charset[1]}"' if charset else match[0]
