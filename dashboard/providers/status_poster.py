"""Posts signed status callbacks for the stand-in, when they are due, and again until taken."""

import http.client
import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from queue import PriorityQueue
from urllib.parse import urlencode, urlsplit

from twilio.request_validator import RequestValidator

from dashboard import clock

logger = logging.getLogger("wireroom.sandbox")

MOST_TRIES = 12
REQUEST_SECONDS = 10.0
POSTERS = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """One callback: where to, what it says, and what happens at the API when it is due.

    Attributes:
        url: empty where nobody wants to be called; the status changes all the same.
    """

    url: str
    fields: Mapping[str, str]
    on_due: Callable[[], None]
    tries: int = 0


class StatusPoster:
    """A thread that waits, and a few that post."""

    def __init__(self, account_sid: str, auth_token: str) -> None:
        self._validator = RequestValidator(auth_token)
        self._account_sid = account_sid
        self._numbers = itertools.count()
        self._queue: PriorityQueue[tuple[float, int, Wanted | None]] = PriorityQueue()
        self._pool = ThreadPoolExecutor(POSTERS, thread_name_prefix="status")
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="statuses", daemon=True)
        self._thread.start()

    def add(self, wanted: Wanted, *, delay_seconds: float) -> None:
        """Post this in `delay_seconds`."""
        self._queue.put((clock.monotonic() + delay_seconds, next(self._numbers), wanted))
        self._changed.set()

    def stop(self) -> None:
        """End the threads; what still waits is dropped."""
        self._queue.put((0.0, -1, None))
        self._changed.set()
        self._thread.join(5)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        while True:
            due, number, wanted = self._queue.get()
            if wanted is None:
                return
            left = due - clock.monotonic()
            if left > 0:
                self._queue.put((due, number, wanted))
                self._changed.clear()
                self._changed.wait(min(left, 0.5))
                continue
            wanted.on_due()
            if wanted.url:
                self._pool.submit(self._deliver, wanted)

    def _deliver(self, wanted: Wanted) -> None:
        if self._post(wanted):
            return
        tries = wanted.tries + 1
        if tries >= MOST_TRIES:
            logger.warning("status callback given up", extra={"tries": tries})
            return
        again = Wanted(wanted.url, wanted.fields, wanted.on_due, tries)
        self.add(again, delay_seconds=min(2.0**wanted.tries, 60))

    def _post(self, wanted: Wanted) -> bool:
        address = urlsplit(wanted.url)
        secure = address.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        connection = kind(address.hostname or "", address.port, timeout=REQUEST_SECONDS)
        signature = self._validator.compute_signature(wanted.url, dict(wanted.fields))
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Twilio-Signature": str(signature),
        }
        target = address.path + (f"?{address.query}" if address.query else "")
        try:
            connection.request("POST", target, urlencode(wanted.fields), headers)
            return 200 <= connection.getresponse().status < 300
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
