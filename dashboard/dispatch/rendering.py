"""Turns a claimed dispatch into the message that its provider sends."""

from collections.abc import Sequence

from dashboard.database import AnySession
from dashboard.dispatch.models import Dispatch, SmsContent
from dashboard.dispatch.request.addresses import ascii_address
from dashboard.dispatch.states import Channel
from dashboard.providers.base import Email, File, Sms


class ContentMissing(Exception):
    """The dispatch's content is gone, so it cannot be sent again as it was."""


def render(row: Dispatch, files: Sequence[File] = ()) -> Email | Sms:
    """Return the stored message of a dispatch.

    Raises:
        ContentMissing: when its content was deleted by the retention.
    """
    return _email(row, files) if row.channel is Channel.EMAIL else _sms(row)


def _email(row: Dispatch, files: Sequence[File]) -> Email:
    if row.email is None:
        raise ContentMissing("Its content was deleted when its retention ended; ask for a new one.")
    content = row.email
    return Email(
        recipient=ascii_address(row.recipient),
        sender=row.sender,
        subject=content.subject,
        text=content.text,
        html=content.html,
        to=tuple(content.to),
        cc=tuple(content.cc),
        reply_to=tuple(content.reply_to),
        headers=content.headers,
        message_id=content.message_id,
        files=tuple(files),
    )


def render_sms(session: AnySession, row: Dispatch) -> Sms | None:
    """Return the text message of a dispatch, loading its content; None for an email.

    Raises:
        ContentMissing: when its content was deleted by the retention.
    """
    if row.channel is not Channel.SMS:
        return None
    content = session.get(SmsContent, row.id)
    if content is None:
        raise ContentMissing("Its content was deleted when its retention ended.")
    return _sms_of(row, content)


def _sms(row: Dispatch) -> Sms:
    if row.sms is None:
        raise ContentMissing("Its content was deleted when its retention ended; ask for a new one.")
    return _sms_of(row, row.sms)


def _sms_of(row: Dispatch, content: SmsContent) -> Sms:
    return Sms(
        recipient=row.recipient,
        body=content.body,
        sender=row.sender,
        media_urls=tuple(content.media_urls),
    )
