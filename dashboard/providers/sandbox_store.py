"""What the sandbox captured, as files: `DATA_DIR/sandbox/mail/<day>/<hour>/<id>.eml`.

Each file is one line of JSON (the envelope) and then the message as received. It appears under
its name only when it is whole. Nothing is synced to disk one by one: this is a sandbox, and it
has to keep up with the workers. An id is the time and 80 random bits in hex: it sorts by time,
cannot be guessed, and cannot name a path.
"""

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from dashboard.clock import now

MOST_MESSAGES = 20_000
MOST_BYTES = 2 * 1024**3
_ID = re.compile(r"[0-9a-f]{32}")
_TIME_DIGITS = 12
_SUFFIX = ".eml"


def mail_folder(data_dir: Path) -> Path:
    """Return the folder that holds everything captured."""
    return data_dir / "sandbox" / "mail"


def is_id(text: str) -> bool:
    """Whether `text` can be an id at all; everything else never reaches the file system."""
    return bool(_ID.fullmatch(text))


def received_at(message_id: str) -> datetime:
    """Return when the message with this id was captured."""
    return datetime.fromtimestamp(int(message_id[:_TIME_DIGITS], 16) / 1000, UTC)


def file_of(data_dir: Path, message_id: str) -> Path:
    """Return the file of a message.

    Raises:
        ValueError: `message_id` is not an id.
    """
    if not is_id(message_id):
        raise ValueError("not the id of a captured message")
    moment = received_at(message_id)
    return mail_folder(data_dir) / f"{moment:%Y-%m-%d}" / f"{moment:%H}" / (message_id + _SUFFIX)


def capture(data_dir: Path, *, mail_from: str, rcpt_to: list[str], content: bytes) -> str:
    """Keep one message and return its id.

    Raises:
        OSError: it could not be written.
    """
    milliseconds = int(now().timestamp() * 1000)
    message_id = f"{milliseconds:0{_TIME_DIGITS}x}{secrets.token_hex(10)}"
    path = file_of(data_dir, message_id)
    envelope = json.dumps({"mail_from": mail_from, "rcpt_to": rcpt_to}).encode()
    draft = path.with_name(f".{message_id}")
    try:
        _write(draft, envelope, content)
    except FileNotFoundError:  # the first one of this hour
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(draft, envelope, content)
    draft.rename(path)
    return message_id


def _write(path: Path, envelope: bytes, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.writelines((envelope, b"\n", content))


def ids(data_dir: Path, *, before: str = "") -> Iterator[str]:
    """Yield the ids of what was captured, newest first; with `before`, only older ones."""
    latest = file_of(data_dir, before).parent if before else None
    for day in _names(mail_folder(data_dir)):
        for hour in _names(mail_folder(data_dir) / day):
            folder = mail_folder(data_dir) / day / hour
            if latest is not None and folder > latest:
                continue
            for name in _names(folder):
                message_id = name.removesuffix(_SUFFIX)
                if is_id(message_id) and (not before or message_id < before):
                    yield message_id


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder), reverse=True)  # noqa: PTH208 - names are enough, and many
    except (FileNotFoundError, NotADirectoryError):
        return []


def prune(data_dir: Path, *, most: int = MOST_MESSAGES, most_bytes: int = MOST_BYTES) -> int:
    """Delete the oldest messages beyond these bounds and return how many they were."""
    kept_bytes = 0
    deleted = 0
    for number, entry in enumerate(_entries(data_dir)):
        with contextlib.suppress(FileNotFoundError):
            kept_bytes += entry.stat().st_size
            if number >= most or (kept_bytes > most_bytes and number > 0):
                path = Path(entry.path)
                path.unlink()
                deleted += 1
                _remove_if_empty(path.parent)
    return deleted


def _entries(data_dir: Path) -> Iterator[os.DirEntry[str]]:
    """Yield the files themselves, newest first; as cheap as can be, while messages come in."""
    for day in _names(mail_folder(data_dir)):
        for hour in _names(mail_folder(data_dir) / day):
            with contextlib.suppress(FileNotFoundError):
                with os.scandir(mail_folder(data_dir) / day / hour) as entries:
                    wanted = [entry for entry in entries if entry.name.endswith(_SUFFIX)]
                yield from sorted(wanted, key=lambda entry: entry.name, reverse=True)


def _remove_if_empty(folder: Path) -> None:
    for candidate in (folder, folder.parent):
        with contextlib.suppress(OSError):
            candidate.rmdir()
