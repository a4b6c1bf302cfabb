"""`SMTP_URL`, taken apart: which mail server, how it is secured, who we are to it.

    smtp://relay.example.com                    port 25
    smtp://user:password@mail.example.com:587   STARTTLS is required
    smtps://user:password@mail.example.com      TLS from the first byte, port 465

User and password are percent-encoded. After `?` may come, joined by `&`:

    starttls=required   never hand anything over unencrypted
    starttls=offered    use STARTTLS if the server offers it; if it then fails, nothing is sent
    starttls=never      do not ask for it; for a server on the same machine or network
    ca=/path/to.pem     believe certificates that this file vouches for, instead of the system's
    helo=name           what we call ourselves in EHLO, instead of this host's name

Without `starttls`, a server on this machine (localhost, 127.0.0.1, ::1) gets `never`, one with a
password or on port 587 `required`, every other `offered`. Certificates are always checked.
"""

import base64
import socket
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = {"smtp": 25, "smtps": 465}
_OPTIONS = frozenset({"starttls", "ca", "helo"})


class SmtpUrlInvalid(Exception):
    """`SMTP_URL` cannot be used; the message says what was expected, never the value."""


class Security(StrEnum):
    """How a connection is protected."""

    TLS = "tls"
    REQUIRED = "required"
    OFFERED = "offered"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Server:
    """One mail server and how to talk to it."""

    host: str
    port: int
    security: Security
    user: str = ""
    password: str = field(default="", repr=False)
    ca_file: str = ""
    helo: str = ""

    @property
    def own_name(self) -> str:
        """What EHLO says; never asks DNS, which can take seconds."""
        name = self.helo or socket.gethostname()
        return name if "." in name or self.helo else "[127.0.0.1]"

    def redact(self, text: str) -> str:
        """Return the server's words without our password, in the forms that a server may repeat."""
        if not self.password:
            return text
        plain = f"\0{self.user}\0{self.password}"
        encoded = (base64.b64encode(form.encode()).decode() for form in (self.password, plain))
        for secret in (self.password, *encoded):
            text = text.replace(secret, "[withheld]")
        return text


def parse_smtp_url(url: str) -> Server:
    """Take `SMTP_URL` apart.

    Raises:
        SmtpUrlInvalid: it is not one of the forms above.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
        host = parts.hostname or ""
    except ValueError:
        raise SmtpUrlInvalid("SMTP_URL has no valid port or host. " + _EXPECTED) from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise SmtpUrlInvalid("SMTP_URL starts with neither smtp:// nor smtps://. " + _EXPECTED)
    if not host or parts.path.strip("/"):
        raise SmtpUrlInvalid("SMTP_URL names no host, or more than a host. " + _EXPECTED)
    options = dict(parse_qsl(parts.query))
    if unknown := sorted(set(options) - _OPTIONS):
        raise SmtpUrlInvalid(f"SMTP_URL has the unknown option {unknown[0]!r}. " + _EXPECTED)
    return Server(
        host=host,
        port=port,
        security=_security(parts, port, options.get("starttls", "")),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        ca_file=options.get("ca", ""),
        helo=options.get("helo", ""),
    )


def _security(parts: SplitResult, port: int, asked: str) -> Security:
    if asked and asked not in (Security.REQUIRED, Security.OFFERED, Security.NEVER):
        raise SmtpUrlInvalid("starttls in SMTP_URL is required, offered or never. " + _EXPECTED)
    if parts.scheme == "smtps":
        return Security.TLS
    if asked:
        return Security(asked)
    if parts.hostname in _LOOPBACK:
        return Security.NEVER
    return Security.REQUIRED if parts.password or port == 587 else Security.OFFERED


_EXPECTED = (
    "Expected smtp://user:password@host:587?starttls=required, or smtps://user:password@host; "
    "see README, Settings."
)
