"""The `smtp` route: email over one configured mail server, `SMTP_URL`.

Gives no delivery reports: accepted is the last that is heard. The provider's id of a message is its
Message-ID without the brackets: the same over all attempts of a dispatch, known to receivers and
their logs, and unlike a server's queue id (kept in `detail`) there even when the reply is lost.
"""

import threading
from dataclasses import replace

from dashboard.providers.base import (
    Capabilities,
    Email,
    Key,
    Outcome,
    OutcomeKind,
    Sms,
    bounded,
)
from dashboard.providers.mime import Rendered, Unsendable, render
from dashboard.providers.smtp_outcomes import (
    is_unknown_name,
    of_impossibility,
    of_loss,
    of_refusal,
    reply_code,
    words,
)
from dashboard.providers.smtp_pool import LONGEST_SECONDS, MOST_DELIVERIES, Pool
from dashboard.providers.smtp_url import parse_smtp_url
from dashboard.providers.smtp_wire import Budget, Impossible, Lost, Refused

_UNKNOWN_NAMES_UNTIL_CONFIG = 5


class SmtpProvider:
    """Email through a mail server; safe to use from many threads.

    Args:
        url: see `smtp_url`.
        operation_seconds: how long one connect, read or write may take.
        deadline_seconds: how long a whole hand-over may take, also when the server drips; the reply
            after the final dot may use all that is left of it.
        most_deliveries, longest_seconds: after which a connection is replaced by a new one.

    Raises:
        SmtpUrlInvalid: the URL cannot be used.
        OSError: its `ca` file cannot be read.
    """

    name = "smtp"
    capabilities = Capabilities()

    def __init__(
        self,
        url: str,
        *,
        operation_seconds: float = 35.0,
        deadline_seconds: float = 96.0,
        most_deliveries: int = MOST_DELIVERIES,
        longest_seconds: float = LONGEST_SECONDS,
    ) -> None:
        self._server = parse_smtp_url(url)
        self._operation_seconds = operation_seconds
        self._deadline_seconds = deadline_seconds
        self._pool = Pool(
            self._server, most_deliveries=most_deliveries, longest_seconds=longest_seconds
        )
        self._lock = threading.Lock()
        self._unknown_names = 0

    def send(self, message: Email | Sms, key: Key) -> Outcome:
        """Hand one email over once. Never raises for what a server or a network can do."""
        if isinstance(message, Sms):
            return Outcome(OutcomeKind.PERMANENT, detail="The smtp route carries email only.")
        if not message.message_id:
            domain = message.sender.rpartition("@")[2].rstrip(">")
            message = replace(message, message_id=f"<{key.idempotency}@{domain}>")
        try:
            rendered = render(message)
        except Unsendable as unsendable:
            return Outcome(OutcomeKind.PERMANENT, detail=f"{unsendable} It was not sent.")
        outcome = self._hand_over(rendered)
        if outcome.kind is OutcomeKind.ACCEPTED:
            outcome = replace(outcome, provider_message_id=message.message_id.strip("<> "))
        return self._safe(outcome)

    def probe(self) -> Outcome:
        """Connect anew, sign in, and ask for a sign of life, without sending."""
        try:
            connection = self._pool.open(self._budget())
            try:
                reply = connection.check(self._budget())
            finally:
                connection.close()
        except (Refused, Lost, Impossible) as failure:
            return self._safe(self._judge(failure))
        self._name_is_known()
        return self._safe(
            Outcome(OutcomeKind.ACCEPTED, detail=words(reply), code=reply_code(reply))
        )

    def close(self) -> None:
        """Close the idle connections; the provider can be used again afterwards."""
        self._pool.close()

    def _budget(self) -> Budget:
        return Budget.of(self._operation_seconds, self._deadline_seconds)

    def _hand_over(self, rendered: Rendered) -> Outcome:
        budget = self._budget()
        try:
            with self._pool.connection(budget) as connection:
                reply = connection.deliver(budget, [rendered.recipient], rendered).reply
        except (Refused, Lost, Impossible) as failure:
            return self._judge(failure)
        self._name_is_known()
        return Outcome(OutcomeKind.ACCEPTED, detail=words(reply), code=reply_code(reply))

    def _judge(self, failure: Refused | Lost | Impossible) -> Outcome:
        if not (isinstance(failure, Lost) and is_unknown_name(failure)):
            self._name_is_known()
        if isinstance(failure, Refused):
            return of_refusal(failure)
        if isinstance(failure, Impossible):
            return of_impossibility(failure)
        outcome = of_loss(failure)
        if is_unknown_name(failure) and self._is_name_unknown_for_long():
            return replace(
                outcome,
                kind=OutcomeKind.CONFIG,
                detail=f"{outcome.detail}. Check the host name in SMTP_URL.",
            )
        return outcome

    def _is_name_unknown_for_long(self) -> bool:
        """Count: once may be a moment without DNS, five times in a row is a wrong name."""
        with self._lock:
            self._unknown_names += 1
            return self._unknown_names >= _UNKNOWN_NAMES_UNTIL_CONFIG

    def _name_is_known(self) -> None:
        if self._unknown_names:
            with self._lock:
                self._unknown_names = 0

    def _safe(self, outcome: Outcome) -> Outcome:
        return replace(outcome, detail=bounded(self._server.redact(outcome.detail)))
