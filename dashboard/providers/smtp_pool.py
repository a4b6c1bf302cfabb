"""Idle connections to one mail server, lent to one thread at a time.

A connection is asked whether it is still there before it is used again, serves a bounded number of
messages for a bounded time, and is thrown away after whatever went wrong.
"""

import contextlib
import ssl
import threading
from collections.abc import Iterator

from dashboard.clock import monotonic
from dashboard.providers.smtp_connection import Connection
from dashboard.providers.smtp_url import Server
from dashboard.providers.smtp_wire import Budget, Impossible, Lost, Refused

MOST_DELIVERIES = 100
LONGEST_SECONDS = 60.0
_CHECK_SECONDS = 5.0


class Pool:
    """Connections by demand: as many as threads use at the same moment, no queue."""

    def __init__(
        self,
        server: Server,
        *,
        most_deliveries: int = MOST_DELIVERIES,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._server = server
        self._most_deliveries = most_deliveries
        self._longest_seconds = longest_seconds
        # Reads the system's certificates, which takes long: once, not per connection.
        self._context = ssl.create_default_context(cafile=server.ca_file or None)
        self._idle: list[Connection] = []
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def connection(self, budget: Budget) -> Iterator[Connection]:
        """Lend a usable connection; it comes back only if nothing was raised or it can go on.

        Raises:
            Refused, Lost, Impossible: there is no connection to be had.
        """
        connection = self._take(budget)
        try:
            yield connection
        except Refused as refused:
            self._take_back_refused(connection, refused)
            raise
        except BaseException:
            connection.drop()
            raise
        self._take_back(connection)

    def open(self, budget: Budget) -> Connection:
        """Open a connection of one's own, which the caller closes."""
        return Connection(self._server, budget, self._context)

    def close(self) -> None:
        """Say goodbye on all idle connections; those in use are closed when they come back."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self, budget: Budget) -> Connection:
        while (connection := self._pop()) is not None:
            if self._is_worn(connection):
                connection.close()
            elif self._is_alive(connection, budget):
                return connection
        return self.open(budget)

    def _pop(self) -> Connection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _is_worn(self, connection: Connection) -> bool:
        age = monotonic() - connection.opened_at
        return connection.deliveries >= self._most_deliveries or age >= self._longest_seconds

    @staticmethod
    def _is_alive(connection: Connection, budget: Budget) -> bool:
        """Ask it; servers hang up idle clients, and a message must not be the first to notice."""
        try:
            connection.check(Budget.of(min(_CHECK_SECONDS, budget.left()), budget.left()))
        except (Refused, Lost, Impossible, TimeoutError):
            connection.drop()
            return False
        return True

    def _take_back(self, connection: Connection) -> None:
        if self._is_worn(connection):
            connection.close()
            return
        with self._lock:
            self._idle.append(connection)

    def _take_back_refused(self, connection: Connection, refused: Refused) -> None:
        """Keep a connection that only said no to one message; 421 and nonsense end it."""
        if not 400 <= refused.reply.code < 600 or refused.reply.code == 421:
            connection.drop()
            return
        try:
            connection.forget(Budget.of(_CHECK_SECONDS, _CHECK_SECONDS))
        except (Refused, Lost, Impossible):
            connection.drop()
            return
        self._take_back(connection)
