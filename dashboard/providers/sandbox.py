"""The `sandbox` route for email: a real SMTP conversation with the local sink.

The sink is another process (`sandbox_server`), found by the address file it writes. Messages go no
further than that; `sandbox_mail` reads what was captured. Recipients of the simulator domain make
what can go wrong happen on purpose.
"""

import json
import threading
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from dashboard.providers.base import (
    Capabilities,
    Email,
    Key,
    Outcome,
    OutcomeKind,
    Report,
    Sms,
    WebhookRequest,
)
from dashboard.providers.sandbox_reports import parse, verify
from dashboard.providers.smtp import SmtpProvider

SIMULATOR_DOMAIN = "simulator.example"
TRACKING_HEADER = "X-Wireroom-Dispatch"
CAPTURED_AS = "captured as "
_ADDRESS_FILE = "address.json"


class Simulated(StrEnum):
    """What a recipient `<word>@simulator.example` (or `<word>+anything@…`) makes happen."""

    DELIVERED = "delivered"
    BOUNCED = "bounced"
    DEFERRED = "deferred"
    SILENT = "silent"
    SLOW = "slow"
    DROP_AFTER_ACCEPT = "drop-after-accept"
    REFUSED = "refused"


_BY_WORD = {str(member): member for member in Simulated}
REPORTED = frozenset({Simulated.DELIVERED, Simulated.BOUNCED, Simulated.SILENT})


def simulated(recipient: str) -> Simulated | None:
    """Return what `recipient` simulates, or nothing for an ordinary address."""
    local_part, _, domain = recipient.lower().rpartition("@")
    word = local_part.partition("+")[0]
    return _BY_WORD.get(word) if domain == SIMULATOR_DOMAIN else None


@dataclass(frozen=True, slots=True)
class SandboxAddress:
    """Where the sink listens."""

    host: str
    port: int


def address_file(data_dir: Path) -> Path:
    """Return the file in which the sink says where it listens."""
    return data_dir / "sandbox" / _ADDRESS_FILE


def read_address(data_dir: Path) -> SandboxAddress | None:
    """Return where the sink listens, or nothing where it never started."""
    try:
        content = json.loads(address_file(data_dir).read_text())
        return SandboxAddress(str(content["host"]), int(content["port"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


class SandboxEmailProvider:
    """The smtp route, aimed at the sink of `DATA_DIR`, wherever that listens at the moment."""

    name = "sandbox"
    capabilities = Capabilities(gives_reports=True)

    def __init__(self, data_dir: Path, *, secret: bytes, deadline_seconds: float = 96.0) -> None:
        self._data_dir = data_dir
        self._secret = secret
        self._deadline_seconds = deadline_seconds
        self._lock = threading.Lock()
        self._address: SandboxAddress | None = None
        self._smtp: SmtpProvider | None = None

    def send(self, message: Email | Sms, key: Key) -> Outcome:
        """Hand one email to the sink; simulator addresses decide what comes of it."""
        smtp = self._current()
        if smtp is None:
            return _NOT_RUNNING
        if isinstance(message, Email):
            headers = {**message.headers, TRACKING_HEADER: key.tracking}
            message = replace(message, headers=headers)
        outcome = smtp.send(message, key)
        if outcome.kind is not OutcomeKind.ACCEPTED:
            return outcome
        captured = outcome.detail.partition(CAPTURED_AS)[2].strip()
        return replace(
            outcome,
            provider_message_id=captured or outcome.provider_message_id,
            report_expected=simulated(message.recipient) in REPORTED,
        )

    def probe(self) -> Outcome:
        """Ask the sink for a sign of life."""
        smtp = self._current()
        return _NOT_RUNNING if smtp is None else smtp.probe()

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            if self._smtp is not None:
                self._smtp.close()

    def verify(self, request: WebhookRequest) -> None:
        """Check that the sink of this installation sent this request.

        Raises:
            RequestRefused: it did not.
        """
        verify(request, self._secret)

    def parse(self, request: WebhookRequest) -> list[Report]:
        """Return the reports in a verified request."""
        return parse(request)

    def _current(self) -> SmtpProvider | None:
        """Return the way to the sink; after a restart it may listen on another port."""
        address = read_address(self._data_dir)
        with self._lock:
            if address is not None and address != self._address:
                if self._smtp is not None:
                    self._smtp.close()
                url = f"smtp://{address.host}:{address.port}?starttls=never"
                self._smtp = SmtpProvider(url, deadline_seconds=self._deadline_seconds)
                self._address = address
            return self._smtp


_NOT_RUNNING = Outcome(
    OutcomeKind.TRANSIENT,
    detail="The sandbox mail server has not been started yet. `wireroom up` starts it.",
)
