"""Posts the sandbox's delivery reports to the real webhook, as a provider would: later, and again.

Kept in memory only: when the sandbox stops, reports that were not taken are gone, as with a
provider that gives up. Does not decide what to report: see `sandbox_server`.
"""

import heapq
import http.client
import itertools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from dashboard.clock import monotonic, now
from dashboard.providers.sandbox_reports import (
    SIGNATURE_HEADER,
    WEBHOOK_PATH,
    SandboxEvent,
    body_of,
    sign,
)

logger = logging.getLogger("wireroom.sandbox")

_MOST_WAITING = 50_000
_MOST_PER_REQUEST = 20
_MOST_TRIES = 12
_LONGEST_PAUSE_SECONDS = 60.0
_REQUEST_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Wanted:
    event: SandboxEvent
    tries: int = 0


class ReportPoster:
    """A thread that posts reports when they are due, and again until they are taken.

    Args:
        base_url: asked before every request, since the web process may start after the sandbox;
            empty means not yet.
        secret: signs the requests.
    """

    def __init__(self, base_url: Callable[[], str], secret: bytes) -> None:
        self._base_url = base_url
        self._secret = secret
        self._numbers = itertools.count()  # keeps the heap from comparing events
        self._waiting: list[tuple[float, int, _Wanted]] = []
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="sandbox-reports", daemon=True)
        self._thread.start()

    def add(self, event: SandboxEvent, *, delay_seconds: float) -> None:
        """Want `event` reported in `delay_seconds`."""
        self._schedule(_Wanted(event), delay_seconds)

    def stop(self) -> None:
        """End the thread; what is still waiting is dropped."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join(_REQUEST_SECONDS)

    def _schedule(self, wanted: _Wanted, delay_seconds: float) -> None:
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                logger.warning("sandbox report dropped", extra={"waiting": len(self._waiting)})
                return
            entry = (monotonic() + delay_seconds, next(self._numbers), wanted)
            heapq.heappush(self._waiting, entry)
            self._changed.notify_all()

    def _run(self) -> None:
        while batch := self._due():
            if not self._post([wanted.event for wanted in batch]):
                for wanted in batch:
                    self._try_later(wanted)

    def _due(self) -> list[_Wanted]:
        """Wait for reports that are due; nothing when there is nothing more to do."""
        with self._changed:
            while not self._stopped:
                batch: list[_Wanted] = []
                while self._waiting and self._waiting[0][0] <= monotonic():
                    batch.append(heapq.heappop(self._waiting)[2])
                    if len(batch) == _MOST_PER_REQUEST:
                        break
                if batch:
                    return batch
                self._changed.wait(self._waiting[0][0] - monotonic() if self._waiting else None)
        return []

    def _try_later(self, wanted: _Wanted) -> None:
        tries = wanted.tries + 1
        if tries >= _MOST_TRIES:
            logger.warning(
                "sandbox report given up",
                extra={"provider_message_id": wanted.event.message_id, "tries": tries},
            )
            return
        self._schedule(_Wanted(wanted.event, tries), min(2.0**wanted.tries, _LONGEST_PAUSE_SECONDS))

    def _post(self, events: list[SandboxEvent]) -> bool:
        """Return whether the webhook took them."""
        address = urlsplit(self._base_url())
        if not address.hostname:
            return False
        kind = http.client.HTTPSConnection if address.scheme == "https" else _PLAIN
        connection = kind(address.hostname, address.port, timeout=_REQUEST_SECONDS)
        body = body_of(events)
        headers = {
            "Content-Type": "application/json",
            SIGNATURE_HEADER: sign(self._secret, body, now()),
        }
        try:
            connection.request("POST", address.path.rstrip("/") + WEBHOOK_PATH, body, headers)
            return 200 <= connection.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


_PLAIN = http.client.HTTPConnection
