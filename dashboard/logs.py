"""The shape of a log line: one stdout handler, one event per line, the same fields everywhere.

Never holds an address or a body: a recipient is the first four hex digits of a keyed hash.
"""

import hashlib
import hmac
import json
import logging
import sys
import time
from typing import Any

from typing_extensions import override

from dashboard.settings import Settings, current

FIELDS = "wireroom_fields"


def recipient_hash(recipient: str) -> str:
    """Return the short keyed hash under which logs speak of a recipient."""
    key = current().secret_key.get_secret_value().encode()
    return hmac.new(key, recipient.encode("utf-8", "replace"), hashlib.sha256).hexdigest()[:4]


def dispatch_fields(*, recipient: str = "", **fields: Any) -> dict[str, Any]:
    """Return `extra` for a line about a dispatch; empty fields are left out."""
    named = {name: value for name, value in fields.items() if value not in ("", None)}
    if recipient:
        named["to_hash"] = recipient_hash(recipient)
    return {FIELDS: named}


class TextFormatter(logging.Formatter):
    """`time level logger phrase key=value …`, with values quoted where they hold spaces."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return one line, and the traceback below it if there is one."""
        fields = " ".join(f"{name}={_quoted(value)}" for name, value in fields_of(record).items())
        stamp = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        line = f"{stamp}.{int(record.msecs):03d}Z {record.levelname.lower()} {record.name} "
        line += f"{record.getMessage()} {fields}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """The same fields as one JSON object a line."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        """Return one JSON object, with the traceback as a field if there is one."""
        content: dict[str, Any] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **fields_of(record),
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str, ensure_ascii=False)


_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {FIELDS, "message", "asctime", "taskName"}


def fields_of(record: logging.LogRecord) -> dict[str, Any]:
    """Return the fields of a line: those of `dispatch_fields` and any other `extra`."""
    extra = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {**getattr(record, FIELDS, {}), **extra}


def _quoted(value: object) -> str:
    text = str(value)
    plain = text and text.isprintable() and not any(mark in text for mark in ' "=')
    return text if plain else json.dumps(text)


class StandardStreamHandler(logging.Handler):
    """Writes to stdout or stderr as they are at that moment, whoever redirected them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._stream_name = name

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Write one line; a stream that is gone costs nobody anything."""
        try:
            stream = getattr(sys, self._stream_name)
            stream.write(self.format(record) + "\n")
            stream.flush()
        except (OSError, ValueError):
            self.handleError(record)


def configure_for_commands() -> None:
    """Send warnings and errors to stderr: a command's stdout holds what it was asked for, alone."""
    handler = StandardStreamHandler("stderr")
    handler.setFormatter(TextFormatter())
    logging.getLogger().handlers[:] = [handler]
    logging.getLogger("wireroom").setLevel(logging.WARNING)


def configure(settings: Settings) -> None:
    """Set up this process's logging: root at WARNING, ours at INFO, one handler to stdout."""
    handler = StandardStreamHandler("stdout")
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    logging.Formatter.converter = time.gmtime
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("wireroom").setLevel(logging.INFO)
