"""Stored files (a start: the one who builds intake owns this module).

Needed by `files.py`: AttachmentError (base of AttachmentMissing and AttachmentChanged, messages name the
file), `read(attachment, settings) -> bytes` and `verify(attachment, settings) -> None`, both checked
against size and sha256.
"""

from dashboard.dispatch.attachment_models import Attachment
from dashboard.settings import Settings


class AttachmentError(Exception):
    """A stored file cannot be used."""


def read(attachment: Attachment, settings: Settings) -> bytes:
    """Return the content."""
    raise AttachmentError(attachment.filename)


def verify(attachment: Attachment, settings: Settings) -> None:
    """Check it."""
    raise AttachmentError(attachment.filename)
