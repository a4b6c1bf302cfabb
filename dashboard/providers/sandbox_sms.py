"""Text messages that the sandbox took: kept as lines of a file, read by the sandbox's page.

The stand-in for Twilio's API writes here, see `twilio_stand_in`; nothing else does.
"""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from dashboard.clock import now

MOST_MESSAGES = 20_000
BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class CapturedSms:
    """One text message as the stand-in took it.

    Attributes:
        received_at: ISO 8601, UTC.
    """

    id: str
    received_at: str
    sender: str
    recipient: str
    body: str
    media_urls: tuple[str, ...] = ()


def sms_file(data_dir: Path) -> Path:
    """Return where messages are kept."""
    return data_dir / "sandbox" / "sms.jsonl"


def address_file(data_dir: Path) -> Path:
    """Return where the stand-in says on which port it listens."""
    return data_dir / "sandbox" / "sms.json"


def read_port(data_dir: Path) -> int | None:
    """Return the port of the stand-in, or None while it does not run."""
    try:
        return int(json.loads(address_file(data_dir).read_text())["port"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def account_of(secret_key: str) -> tuple[str, str]:
    """Return the account SID and the token of this installation's stand-in."""
    digest = hmac.new(secret_key.encode(), b"sandbox sms account", hashlib.sha256).hexdigest()
    return f"AC{digest[:32]}", digest[32:]


class SmsStore:
    """Appends messages; one process writes, any number read."""

    def __init__(self, data_dir: Path) -> None:
        self._path = sms_file(data_dir)
        self._lock = threading.Lock()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._count = sum(1 for _ in self._lines())

    def add(self, message: CapturedSms) -> None:
        """Keep a message; every now and then drop the oldest."""
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(message)) + "\n")
            self._count += 1
        if self._count > 2 * MOST_MESSAGES:
            self._shorten()

    def _shorten(self) -> None:
        with self._lock:
            kept = list(self._lines())[-MOST_MESSAGES:]
            draft = self._path.with_suffix(".draft")
            draft.write_text("".join(kept), encoding="utf-8")
            draft.replace(self._path)
            self._count = len(kept)

    def _lines(self) -> Iterator[str]:
        try:
            with self._path.open(encoding="utf-8") as file:
                yield from file
        except FileNotFoundError:
            return


def newest(data_dir: Path, *, limit: int = 50) -> list[CapturedSms]:
    """Return the newest messages, the last one first; a damaged line is passed over."""
    found: list[CapturedSms] = []
    for line in _backwards(sms_file(data_dir)):
        try:
            content = json.loads(line)
            content["media_urls"] = tuple(content["media_urls"])
            found.append(CapturedSms(**content))
        except (ValueError, KeyError, TypeError):
            continue
        if len(found) == limit:
            break
    return found


def _backwards(path: Path) -> Iterator[str]:
    """Yield the lines of a file from its end, reading no more than is asked for."""
    try:
        with path.open("rb") as file:
            position = file.seek(0, 2)
            rest = b""
            while position > 0:
                step = min(BLOCK, position)
                position -= step
                file.seek(position)
                lines = (file.read(step) + rest).split(b"\n")
                rest = lines[0]
                for line in reversed(lines[1:]):
                    if line:
                        yield line.decode("utf-8", "replace")
            if rest:
                yield rest.decode("utf-8", "replace")
    except FileNotFoundError:
        return


def captured(sid: str, fields: dict[str, list[str]]) -> CapturedSms:
    """Return the message of a create request."""
    sender = fields.get("From") or fields.get("MessagingServiceSid") or [""]
    return CapturedSms(
        id=sid,
        received_at=now().isoformat(),
        sender=sender[0],
        recipient=fields.get("To", [""])[0],
        body=fields.get("Body", [""])[0],
        media_urls=tuple(fields.get("MediaUrl", [])),
    )
