"""What `wireroom doctor` tries: one function per connection or group of settings.

Each yields findings and changes nothing; messages never hold a secret.
"""

import contextlib
import importlib
import os
import smtplib
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit

import psycopg
import redis

from dashboard.commands import migrate
from dashboard.commands.supervised import answers
from dashboard.providers.webhook_secrets import secret_problems
from dashboard.settings import Settings

_TIMEOUT_SECONDS = 5
_OLDEST_POSTGRES = 14
_OLDEST_REDIS = (6, 2)
_SHORTEST_KEY = 32


class Severity(StrEnum):
    """How bad a finding is, from none to worst."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True)
class Finding:
    """What was looked at, what is so, and what to do about it ("" when it is in order)."""

    severity: Severity
    subject: str
    text: str
    mend: str = ""


def _ok(subject: str, text: str) -> Finding:
    return Finding(Severity.OK, subject, text)


def _warning(subject: str, text: str, mend: str) -> Finding:
    return Finding(Severity.WARNING, subject, text, mend)


def _error(subject: str, text: str, mend: str) -> Finding:
    return Finding(Severity.ERROR, subject, text, mend)


def examine(settings: Settings) -> Iterator[Finding]:
    """Try everything, one after another; each attempt ends within 5 s."""
    for examination in _EXAMINATIONS:
        yield from examination(settings)


def _data_dir(settings: Settings) -> Iterator[Finding]:
    folder = settings.data_dir
    if not os.access(folder, os.W_OK):
        yield _error("WIREROOM_DATA_DIR", f"{folder} cannot be written.", "Make it writable.")
        return
    secrets = ("secret_key", "servers.json", "postgres_password", "valkey_password")
    exposed = [
        name for name in secrets if (path := folder / name).exists() and path.stat().st_mode & 0o077
    ]
    if exposed:
        files = " ".join(str(folder / name) for name in exposed)
        yield _error("WIREROOM_DATA_DIR", "Others can read its secrets.", f"chmod 600 {files}")
    else:
        yield _ok("WIREROOM_DATA_DIR", f"{folder} is writable, its secrets are private.")


def _secret_key(settings: Settings) -> Iterator[Finding]:
    if len(settings.secret_key.get_secret_value()) < _SHORTEST_KEY:
        yield _error(
            "SECRET_KEY",
            f"It is shorter than {_SHORTEST_KEY} characters.",
            "Make one: python -c 'import secrets; print(secrets.token_urlsafe(48))'",
        )
    else:
        yield _ok("SECRET_KEY", "It is long enough.")


def _database(settings: Settings) -> Iterator[Finding]:
    if not settings.database_url:
        yield _not_running("DATABASE_URL", settings)
        return
    url = settings.database_url.replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        with psycopg.connect(url, connect_timeout=_TIMEOUT_SECONDS) as connection:
            yield from _database_facts(connection)
    except psycopg.Error as error:
        reason = _without_secret(str(error).strip().splitlines()[0], settings.database_url)
        mend = "Is the server up, and are host, name and password right? For the embedded one: up."
        yield _error("DATABASE_URL", f"PostgreSQL cannot be used: {reason}", mend)


def _database_facts(connection: psycopg.Connection[tuple[str, ...]]) -> Iterator[Finding]:
    major = connection.info.server_version // 10_000
    if major < _OLDEST_POSTGRES:
        mend = f"Use version {_OLDEST_POSTGRES} or newer."
        yield _error("DATABASE_URL", f"PostgreSQL {major} is too old.", mend)
    else:
        yield _ok("DATABASE_URL", f"PostgreSQL {major} answers.")
    if not connection.execute(
        "SELECT FROM pg_available_extensions WHERE name = 'pg_trgm'"
    ).fetchall():
        mend = "Install PostgreSQL's contrib package on the server."
        yield _error("DATABASE_URL", "The extension pg_trgm, which search needs, is missing.", mend)


def _migrations(settings: Settings) -> Iterator[Finding]:
    with contextlib.suppress(psycopg.Error):  # then `_database` has said so
        if not settings.database_url:
            return
        if migrate.is_current(settings.database_url):
            yield _ok("migrations", "The tables are of this version.")
        else:
            text = "The tables are not of this version."
            yield _error("migrations", text, "Run: wireroom migrate")


def _redis(settings: Settings) -> Iterator[Finding]:
    if not settings.redis_url:
        yield _not_running("REDIS_URL", settings)
        return
    try:
        with redis.Redis.from_url(
            settings.redis_url,
            socket_connect_timeout=_TIMEOUT_SECONDS,
            socket_timeout=_TIMEOUT_SECONDS,
            decode_responses=True,
        ) as connection:
            yield from _redis_facts(connection.info())
    except (redis.RedisError, ValueError) as error:
        reason = _without_secret(str(error), settings.redis_url)
        mend = "Is the server up, and are host and password right? For the embedded one: up."
        yield _error("REDIS_URL", f"Redis cannot be used: {reason}", mend)


def _redis_facts(info: dict[str, object]) -> Iterator[Finding]:
    version = str(info.get("redis_version", "0.0"))
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_REDIS:
        yield _error("REDIS_URL", f"Redis {version} is too old.", "Use 6.2 or newer, or Valkey.")
    else:
        yield _ok("REDIS_URL", f"Redis {version} (or what speaks like it) answers.")
    if str(info.get("aof_enabled")) != "1":
        mend = "Set appendonly yes: without it a restart empties the queues (they fill again)."
        yield _warning("REDIS_URL", "It keeps nothing on disk.", mend)
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        mend = "Set maxmemory-policy noeviction."
        yield _error("REDIS_URL", f"It throws jobs away when memory is short ({policy}).", mend)


def _not_running(name: str, settings: Settings) -> Finding:
    text = f"It is not set, and no embedded server runs on {settings.data_dir}."
    return _error(name, text, f"Run: wireroom up, or set {name}.")


def _without_secret(text: str, url: str) -> str:
    password = urlsplit(url).password or ""
    for secret in filter(None, (password, unquote(password))):
        text = text.replace(secret, "…")
    return text


def _base_url(settings: Settings) -> Iterator[Finding]:
    parts = urlsplit(settings.public_base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        mend = "Set PUBLIC_BASE_URL to where people reach the dashboard, as https://host."
        yield _error("PUBLIC_BASE_URL", "It is not an address.", mend)
    elif settings.is_production and parts.scheme != "https":
        yield _error("PUBLIC_BASE_URL", "It is not encrypted.", "Serve it by https:// and say so.")
    elif parts.hostname == "127.0.0.1" and not answers(parts.port or 80):
        text = f"Nothing answers at {settings.public_base_url}."
        yield _warning("PUBLIC_BASE_URL", text, "Run: wireroom up, or wireroom web.")
    else:
        yield _ok("PUBLIC_BASE_URL", settings.public_base_url)


def _smtp(settings: Settings) -> Iterator[Finding]:
    given = settings.smtp_url.get_secret_value()
    if not given:
        if settings.email_route == "smtp":
            mend = "Set SMTP_URL, or another WIREROOM_EMAIL_PROVIDER."
            yield _error("SMTP_URL", "Email goes out by SMTP, but it is not set.", mend)
        return
    try:
        parts = urlsplit(given)
        host, port = parts.hostname or "", parts.port or (465 if parts.scheme == "smtps" else 587)
        connection: smtplib.SMTP
        if parts.scheme == "smtps":
            context = ssl.create_default_context()
            connection = smtplib.SMTP_SSL(host, port, timeout=_TIMEOUT_SECONDS, context=context)
        else:
            connection = smtplib.SMTP(host, port, timeout=_TIMEOUT_SECONDS)
        with connection:
            connection.ehlo()
    except (OSError, smtplib.SMTPException, ValueError) as error:
        text = f"The mail server does not answer: {type(error).__name__}."
        yield _error(
            "SMTP_URL", text, "Are scheme, host and port right, and may this host reach it?"
        )
    else:
        yield _ok("SMTP_URL", f"The mail server {host}:{port} answers (no sign-in tried).")


def _twilio(settings: Settings) -> Iterator[Finding]:
    if settings.sms_route != "twilio":
        return
    sid = settings.twilio_account_sid
    if not sid.startswith("AC") or len(sid) != 34:
        mend = "Copy the Account SID from Twilio's console."
        yield _error("TWILIO_ACCOUNT_SID", "It is not AC and 32 characters.", mend)
    if not settings.twilio_auth_token.get_secret_value():
        yield _error("TWILIO_AUTH_TOKEN", "It is missing.", "Copy it from Twilio's console.")
    if not (settings.twilio_from or settings.twilio_messaging_service_sid):
        mend = "Set TWILIO_FROM or TWILIO_MESSAGING_SERVICE_SID."
        yield _error("TWILIO_FROM", "No sender is set for SMS.", mend)
    if not settings.twilio_webhook_url:
        mend = "Set TWILIO_WEBHOOK_URL for reports at once; without it Twilio is asked every 30 s."
        yield _warning("TWILIO_WEBHOOK_URL", "It is not set.", mend)


def _webhooks(settings: Settings) -> Iterator[Finding]:
    finding = _error if settings.is_production else _warning
    for problem in secret_problems(settings):
        yield finding("webhooks", problem, "Production does not start without it.")


def _kinds(settings: Settings) -> Iterator[Finding]:
    for name in filter(None, (part.strip() for part in settings.kinds.split(","))):
        try:
            importlib.import_module(name)
        except (ImportError, SyntaxError) as error:
            mend = "Is the module's package installed here, and its name spelt right?"
            yield _error("WIREROOM_KINDS", f"{name} cannot be imported: {error}", mend)
        else:
            yield _ok("WIREROOM_KINDS", f"{name} can be imported.")


def _attachments(settings: Settings) -> Iterator[Finding]:
    root = settings.attachment_root
    if not root or "://" in root:
        return
    if os.access(Path(root), os.W_OK):
        yield _ok("WIREROOM_ATTACHMENT_ROOT", f"{root} is writable.")
    else:
        mend = "Make the folder, writable for this user."
        yield _error("WIREROOM_ATTACHMENT_ROOT", f"{root} cannot be written.", mend)


def _sentry(settings: Settings) -> Iterator[Finding]:
    given = settings.sentry_dsn.get_secret_value()
    if not given:
        yield _warning("SENTRY_DSN", "Sentry is off.", "Set SENTRY_DSN to hear of errors.")
    elif not (urlsplit(given).hostname and urlsplit(given).username):
        yield _error("SENTRY_DSN", "It is not a DSN.", "Copy it from the project's page in Sentry.")
    else:
        yield _ok("SENTRY_DSN", "Sentry is on; `wireroom check-workers --raise` tries it out.")


_EXAMINATIONS: tuple[Callable[[Settings], Iterator[Finding]], ...] = (
    _data_dir,
    _secret_key,
    _database,
    _migrations,
    _redis,
    _base_url,
    _smtp,
    _twilio,
    _webhooks,
    _kinds,
    _attachments,
    _sentry,
)
