"""The `anymail:<esp>` routes: email through every service that django-anymail speaks to.

anymail builds and posts the request and reads the answer; whether that is a success, what may be
repeated, and what a report means is decided here. One provider serves many threads: each has a
backend, and so a connection, of its own.
"""

import logging
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import requests
from anymail.exceptions import AnymailUnsupportedFeature

from dashboard.clock import monotonic
from dashboard.providers.anymail_django import backend_of
from dashboard.providers.anymail_messages import message_of
from dashboard.providers.anymail_outcomes import CALL_FAILURES, outcome_of, outcome_of_status
from dashboard.providers.anymail_settings import Configuration
from dashboard.providers.anymail_webhooks import Webhook
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
from dashboard.providers.mime_headers import Unsendable
from dashboard.providers.tracking import TrackingStrategy, strategy

logger = logging.getLogger("wireroom.anymail")

# Services close idle connections after about a minute, and a post on a closing one is a doubt.
IDLE_SECONDS = 10.0


class _Slot(threading.local):
    """One thread's backend, and when it was used last."""

    backend: Any = None
    used_at: float = 0.0


class AnymailProvider:
    """One email service.

    Raises:
        StrategyInvalid: the tracking strategy of the configuration does not exist.
    """

    def __init__(self, configuration: Configuration) -> None:
        esp = configuration.esp
        self.name = configuration.name
        self.capabilities = Capabilities(
            gives_reports=configuration.checks_webhooks,
            takes_idempotency_key=bool(esp.idempotency),
            idempotency_seconds=esp.idempotency_seconds,
            max_message_bytes=esp.max_message_bytes,
        )
        self._configuration = configuration
        self._tracking: TrackingStrategy = strategy(configuration.tracking)
        self._slot = _Slot()
        self._opened: list[Any] = []
        self._lock = threading.Lock()

    def send(self, message: Email | Sms, key: Key) -> Outcome:
        """Post one email once; never raises for what a service or a network can do."""
        if isinstance(message, Sms):
            return Outcome(OutcomeKind.PERMANENT, "This route carries email, not SMS.")
        try:
            return self._send(message, key)
        except Unsendable as unsendable:
            return Outcome(OutcomeKind.PERMANENT, f"{unsendable} It was not sent.")
        except CALL_FAILURES as error:
            outcome = outcome_of(error)
            logger.info("call failed", extra={"provider": self.name, "outcome": outcome.kind.value})
            self._drop()
            return outcome

    def _send(self, email: Email, key: Key) -> Outcome:
        """Send with our key; without it where the service has no place for it, still only once.

        An unsupported feature shows before anything is posted.
        """
        esp = self._configuration.esp
        message = message_of(email, key, esp, self._tracking)
        try:
            self._backend().send_messages([message])
        except AnymailUnsupportedFeature as unsupported:
            if not (getattr(message, "metadata", None) or getattr(message, "tags", None)):
                raise
            fields = {"provider": self.name, "dispatch_id": key.dispatch_id}
            logger.info(
                "tracking not supported", extra={**fields, "reason": str(unsupported)[:200]}
            )
            message = message_of(email, key, esp, None)
            self._backend().send_messages([message])
        expected = self.capabilities.gives_reports
        return outcome_of_status(message.anymail_status, report_expected=expected)

    def _backend(self) -> Any:
        """Return this thread's backend, connected; a connection that idled is replaced."""
        slot = self._slot
        if slot.backend is None:
            slot.backend = self._new_backend()
        elif monotonic() - slot.used_at > IDLE_SECONDS and self._configuration.esp.name != "ses":
            slot.backend.close()
        slot.backend.open()
        slot.used_at = monotonic()
        return slot.backend

    def _new_backend(self) -> Any:
        backend = backend_of(self._configuration)
        with self._lock:
            if self._configuration.esp.name == "ses" and self._opened:
                # Amazon's client is made for many threads, and costs megabytes to make.
                backend.client = self._opened[0].client
            backend.open()
            self._opened.append(backend)
        return backend

    def _drop(self) -> None:
        """Close this thread's connection: after an error nothing is known about it."""
        if self._slot.backend is not None and self._configuration.esp.name != "ses":
            self._slot.backend.close()

    def probe(self) -> Outcome:
        """Ask the service's address for an answer.

        No service has a call that checks a sending key without more rights than sending needs; so
        accepted means that it can be reached, and the next message tries the key.
        """
        try:
            answer = requests.head(
                self._address, timeout=self._configuration.timeouts, allow_redirects=False
            )
        except CALL_FAILURES as error:
            return outcome_of(error)
        if answer.status_code >= 500:
            return Outcome(OutcomeKind.TRANSIENT, f"The service answers {answer.status_code}.")
        return Outcome(OutcomeKind.ACCEPTED, "The service can be reached; a message tries the key.")

    @cached_property
    def _address(self) -> str:
        backend = backend_of(self._configuration)
        if self._configuration.esp.name != "ses":
            return str(backend.api_url)
        backend.open()
        address = str(backend.client.meta.endpoint_url)
        backend.close()
        return address

    @cached_property
    def _webhook(self) -> Webhook:
        return Webhook(self._configuration, self._tracking)

    def verify(self, request: WebhookRequest) -> None:
        """Check that the service sent a request.

        Raises:
            WebhookUnusable: there is no secret to check it with.
            CredentialsWanted: it has no basic auth.
            RequestRefused: it is not the service's, or too old.
        """
        self._webhook.verify(request)

    def parse(self, request: WebhookRequest) -> Sequence[Report]:
        """Return the reports of a verified request; raises RequestRefused for a foreign body."""
        return self._webhook.parse(request)

    def close(self) -> None:
        """Close all connections; they are opened again when needed."""
        with self._lock:
            opened, self._opened = self._opened, []
            self._slot = _Slot()
        for backend in opened:
            backend.close()
