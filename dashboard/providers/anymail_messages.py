"""An `Email` as the message that anymail's backends take: checked, to one recipient."""

import uuid
from email.encoders import encode_base64
from email.mime.base import MIMEBase
from typing import Any

from django.core.mail import EmailMultiAlternatives

from dashboard.providers.anymail_esps import Esp, Idempotency
from dashboard.providers.base import Email, File, Key
from dashboard.providers.mime_headers import Mailbox, Unsendable, one_line, parse_mailbox
from dashboard.providers.tracking import TrackingStrategy

# Headers that the service writes itself, or that would add recipients.
_OURS = frozenset(
    [
        "bcc",
        "cc",
        "content-transfer-encoding",
        "content-type",
        "date",
        "from",
        "message-id",
        "mime-version",
        "reply-to",
        "resent-bcc",
        "resent-cc",
        "resent-to",
        "return-path",
        "sender",
        "subject",
        "to",
    ]
)


def message_of(email: Email, key: Key, esp: Esp, tracking: TrackingStrategy | None) -> Any:
    """Return the message; anymail itself would let line breaks through and split addresses.

    Args:
        tracking: how our key goes along; None for a message without it.

    Raises:
        Unsendable: a field cannot be written.
    """
    message = EmailMultiAlternatives(
        subject=one_line("subject", email.subject),
        body=email.text or email.html,
        from_email=_written(parse_mailbox("sender", email.sender)),
        to=[_recipient(email)],
        reply_to=[_written(parse_mailbox("Reply-To", one)) for one in email.reply_to],
        headers=_headers(email, key, esp),
    )
    if email.html and email.text:
        message.attach_alternative(email.html, "text/html")
    elif email.html:
        message.content_subtype = "html"
    for file in email.files:
        _attach(message, file, is_inline=bool(file.content_id and email.html))
    message.idempotency_key = key.idempotency
    _track(message, key, esp, tracking)
    return message


def _track(message: Any, key: Key, esp: Esp, tracking: TrackingStrategy | None) -> None:
    if tracking is None:
        return
    message.metadata, message.tags = {}, []
    # Under one idempotency key the whole request has to stay the same, octet for octet.
    tracking.attach(message, key.idempotency if esp.idempotency else key.tracking)
    # An empty one would be a feature that the service may not have.
    for name in ("metadata", "tags"):
        if not getattr(message, name):
            delattr(message, name)


def _recipient(email: Email) -> str:
    """Return the one recipient, with the display name under which the header shows it."""
    recipient = parse_mailbox("recipient", email.recipient)
    shown = [parse_mailbox("To", one) for one in email.to]
    same = [one for one in shown if one.address.lower() == recipient.address.lower()]
    return _written(same[0] if same else recipient)


def _written(mailbox: Mailbox) -> str:
    if not mailbox.name:
        return mailbox.address
    name = mailbox.name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{name}" <{mailbox.address}>'


def _headers(email: Email, key: Key, esp: Esp) -> dict[str, str]:
    headers = {}
    for name, value in email.headers.items():
        if one_line("header name", name).lower() in _OURS or ":" in name or not name.isascii():
            raise Unsendable("An additional header has a name that only the route may write.")
        headers[name] = one_line(name, value)
    if email.message_id and esp.own_message_id:
        headers["Message-ID"] = one_line("Message-ID", email.message_id)
    if esp.idempotency is Idempotency.MESSAGE_HEADER:
        # Brevo takes a UUID among the message's headers.
        headers["idempotencyKey"] = str(uuid.uuid5(uuid.NAMESPACE_URL, key.idempotency))
    if esp.shows_others:
        headers.update(_shown(email))
    return headers


def _shown(email: Email) -> dict[str, str]:
    """Return the To and Cc that everybody sees, where they name more than the recipient."""
    if len(email.to) + len(email.cc) < 2:
        return {}
    written = {
        name: ", ".join(_written(parse_mailbox(name, one)) for one in values)
        for name, values in (("To", email.to), ("Cc", email.cc))
    }
    return {name: value for name, value in written.items() if value}


def _attach(message: Any, file: File, *, is_inline: bool) -> None:
    filename = one_line("file name", file.filename)
    content_type = one_line("content type of a file", file.content_type).split(";")[0].strip()
    main, _, sub = (content_type or "application/octet-stream").partition("/")
    if main in ("message", "multipart") or not sub:
        main, sub = "application", "octet-stream"
    part = MIMEBase(main, sub)
    part.set_payload(file.content)
    # Base64 keeps the octets: attaching text as text would rewrite line ends and charset.
    encode_base64(part)
    kind = "inline" if is_inline else "attachment"
    part.add_header("Content-Disposition", kind, filename=filename)
    if is_inline:
        content_id = one_line("content id", file.content_id).strip("<> ")
        part.add_header("Content-ID", f"<{content_id}>")
    message.attach(part)
