"""Messages for the provider tests."""

import uuid
from typing import Any

from dashboard.providers.base import Email, Key


def email(**changes: Any) -> Email:
    """An ordinary email; `changes` are its fields."""
    fields: dict[str, Any] = {
        "recipient": "ada@example.com",
        "sender": "Wireroom <wireroom@example.com>",
        "subject": "Grüße 🎉",
        "text": "Hello\n.leading dot\n",
        "to": ("ada@example.com",),
        "message_id": f"<{uuid.uuid4()}@wireroom.example>",
    }
    return Email(**{**fields, **changes})


def key() -> Key:
    """The key of a first attempt."""
    dispatch_id = str(uuid.uuid4())
    return Key(dispatch_id, 1, dispatch_id)
