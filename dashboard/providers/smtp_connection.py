"""One conversation with a mail server: greet, encrypt, sign in, hand over, again and again.

Every reply that says no is raised as `Refused`, every loss as `Lost`, both with the phase they
happened in. Decides nothing about what that means: see `smtp_outcomes`.
"""

import contextlib
import smtplib
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dashboard.clock import monotonic
from dashboard.providers.mime import Rendered
from dashboard.providers.smtp_url import Security, Server
from dashboard.providers.smtp_wire import (
    Budget,
    Impossible,
    Lost,
    Phase,
    Refused,
    Reply,
    Wire,
    expect,
    reply_of,
)

_GOODBYE_SECONDS = 2.0
_MECHANISMS = ("PLAIN", "LOGIN", "CRAM-MD5")


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the server took: its last words, and the recipients it refused."""

    reply: Reply
    refused: dict[str, Reply] = field(default_factory=dict)


class Connection:
    """An open, greeted and, where configured, encrypted and authenticated connection.

    Not thread-safe: one thread uses it at a time. Every method raises only `Refused`, `Lost` and
    `Impossible`; after `Lost` it is closed.
    """

    def __init__(self, server: Server, budget: Budget, context: ssl.SSLContext) -> None:
        self.opened_at = monotonic()
        self.deliveries = 0
        self._server = server
        self._context = context
        self._wire = Wire(server, budget, context)
        try:
            with self._watched():
                self._open()
        except BaseException:
            self._wire.close()
            raise

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Turn what smtplib and the socket raise into what says how far we got."""
        wire = self._wire
        try:
            yield
        except smtplib.SMTPServerDisconnected as error:
            raise Lost(wire.phase, error) from error
        except smtplib.SMTPResponseException as error:
            text = error.smtp_error
            words = text if isinstance(text, str) else text.decode("utf-8", "replace")
            raise Refused(wire.phase, Reply(-1, words)) from error
        except smtplib.SMTPException as error:
            raise Refused(wire.phase, Reply(-1, str(error))) from error
        except OSError as error:
            wire.close()
            raise Lost(wire.phase, error) from error
        except ValueError as error:  # a name or a password that the protocol cannot carry
            wire.close()
            raise Impossible(wire.phase, f"It cannot be said in SMTP: {error}") from error

    def _open(self) -> None:
        wire = self._wire
        greeting = reply_of(*wire.connect(self._server.host, self._server.port))
        expect(Phase.GREETING, greeting, 220)
        self._introduce()
        if self._server.security in (Security.REQUIRED, Security.OFFERED):
            self._encrypt()
        if self._server.user or self._server.password:
            self._authenticate()
        wire.phase = Phase.IDLE

    def _introduce(self) -> None:
        wire = self._wire
        wire.phase = Phase.EHLO
        reply = reply_of(*wire.ehlo())
        if reply.code in (500, 501, 502, 504):  # a server from before ESMTP
            reply = reply_of(*wire.helo())
        expect(Phase.EHLO, reply, 250)

    def _encrypt(self) -> None:
        wire = self._wire
        wire.phase = Phase.STARTTLS
        if wire.has_extn("starttls"):
            try:
                wire.starttls(context=self._context)
            except smtplib.SMTPResponseException as error:
                raise Refused(wire.phase, reply_of(error.smtp_code, _octets(error))) from error
            self._introduce()
        elif self._server.security is Security.REQUIRED or self._server.password:
            raise Impossible(
                wire.phase,
                "The mail server does not offer STARTTLS, so nothing was sent: it would have gone "
                "unencrypted. Check host and port of SMTP_URL.",
            )

    def _authenticate(self) -> None:
        wire = self._wire
        wire.phase = Phase.AUTH
        offered = str(wire.esmtp_features.get("auth", "")).upper().split()
        mechanism = next((name for name in _MECHANISMS if name in offered), None)
        if mechanism is None:
            raise Impossible(
                wire.phase,
                "The mail server offers no sign-in that we know, but SMTP_URL has a user and a "
                "password. Check host and port, or leave them out.",
            )
        wire.user, wire.password = self._server.user, self._server.password
        answer: Any = {
            "PLAIN": wire.auth_plain,
            "LOGIN": wire.auth_login,
            "CRAM-MD5": wire.auth_cram_md5,
        }[mechanism]
        try:
            # One mechanism only: a server may hang up after the first refusal, and trying the next
            # one, as login() does, would hide the 535 behind a lost connection.
            wire.auth(mechanism, answer)
        except smtplib.SMTPAuthenticationError as error:
            raise Refused(wire.phase, reply_of(error.smtp_code, _octets(error))) from error

    @property
    def size_limit(self) -> int:
        """The largest message in octets that the server says it takes; 0 if it says nothing."""
        limit = str(self._wire.esmtp_features.get("size", ""))
        return int(limit) if limit.isdigit() else 0

    def deliver(self, budget: Budget, recipients: Sequence[str], rendered: Rendered) -> Delivery:
        """Hand one message over to one or more recipients in one conversation.

        A refusal of some recipients is part of the result; of all of them, `Refused`. A 421 at any
        of them is `Refused` for all, since nobody gets the message.
        """
        wire = self._wire
        with self._watched():
            wire.budget = budget
            wire.phase = Phase.MAIL
            options = self._mail_options(rendered)
            expect(wire.phase, reply_of(*wire.mail(rendered.mail_from, options)), 250)
            wire.phase = Phase.RCPT
            refused = self._name_recipients(recipients)
            reply = wire.transmit(rendered.content)
            if not 200 <= reply.code < 300:
                raise Refused(wire.phase, reply)
            wire.phase = Phase.DONE
            self.deliveries += 1
        return Delivery(reply, refused)

    def _mail_options(self, rendered: Rendered) -> list[str]:
        size = len(rendered.content)
        options = [f"SIZE={size}"] if self._wire.has_extn("size") else []
        if 0 < self.size_limit < size:
            raise Impossible(
                Phase.MAIL,
                f"The message has {size:,} octets; the mail server takes {self.size_limit:,}.",
            )
        if rendered.needs_smtputf8:
            if not self._wire.has_extn("smtputf8"):
                raise Impossible(
                    Phase.MAIL,
                    "An address has characters outside ASCII before the @; the mail server cannot "
                    "carry that (no SMTPUTF8).",
                )
            options.append("SMTPUTF8")
        return options

    def _name_recipients(self, recipients: Sequence[str]) -> dict[str, Reply]:
        refused = {}
        for recipient in recipients:
            reply = reply_of(*self._wire.rcpt(recipient))
            if reply.code == 421:
                raise Refused(Phase.RCPT, reply)
            if reply.code not in (250, 251, 252):
                refused[recipient] = reply
        if len(refused) == len(recipients):
            raise Refused(Phase.RCPT, next(iter(refused.values())))
        return refused

    def check(self, budget: Budget) -> Reply:
        """Ask whether the server is still there."""
        with self._watched():
            self._wire.budget = budget
            self._wire.phase = Phase.IDLE
            return expect(Phase.IDLE, reply_of(*self._wire.noop()), 250)

    def forget(self, budget: Budget) -> None:
        """Drop a half-made hand-over (RSET), so that the connection can serve the next one."""
        with self._watched():
            self._wire.budget = budget
            self._wire.phase = Phase.IDLE
            expect(Phase.IDLE, reply_of(*self._wire.rset()), 250)

    def drop(self) -> None:
        """Close it without a word, for a connection that is no longer in step."""
        self._wire.close()

    def close(self) -> None:
        """Say goodbye and close; what the server makes of that no longer matters."""
        self._wire.budget = Budget.of(_GOODBYE_SECONDS, _GOODBYE_SECONDS)
        with contextlib.suppress(smtplib.SMTPException, OSError):
            self._wire.docmd("QUIT")
        self._wire.close()


def _octets(error: smtplib.SMTPResponseException) -> bytes:
    text = error.smtp_error
    return text.encode() if isinstance(text, str) else text
