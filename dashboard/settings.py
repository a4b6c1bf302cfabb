"""Settings: read once from the environment (and `.env`), typed, frozen. Nothing else reads it.

Does not connect to anything: `wireroom doctor` tries each setting out.
"""

import json
import os
import secrets
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from dotenv import dotenv_values
from pydantic import Field, SecretStr, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

SERVERS_FILE = "servers.json"


class Environment(StrEnum):
    """Where this installation runs; production refuses to start without its secrets."""

    DEVELOPMENT = "development"
    STAGING = "staging"
    PRODUCTION = "production"


class SettingsInvalid(Exception):
    """The environment cannot be used; the message has one line per variable, never a value."""


def _wireroom(name: str) -> str:
    return f"WIREROOM_{name}"


class Settings(BaseSettings):
    """Every setting of the README's table, under the name that the table gives it."""

    model_config = SettingsConfigDict(
        env_file=".env",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        populate_by_name=True,
    )

    database_url: str = Field("", validation_alias="DATABASE_URL")
    redis_url: str = Field("", validation_alias="REDIS_URL")
    secret_key: SecretStr = Field(SecretStr(""), validation_alias="SECRET_KEY")
    public_base_url: str = Field("", validation_alias="PUBLIC_BASE_URL")
    assets: str = Field("cdn", validation_alias="ASSETS", pattern="^(cdn|local)$")
    log_format: str = Field("text", validation_alias="LOG_FORMAT", pattern="^(text|json)$")
    sentry_dsn: SecretStr = Field(SecretStr(""), validation_alias="SENTRY_DSN")
    sentry_environment: str = Field("", validation_alias="SENTRY_ENVIRONMENT")

    smtp_url: SecretStr = Field(SecretStr(""), validation_alias="SMTP_URL")
    twilio_account_sid: str = Field("", validation_alias="TWILIO_ACCOUNT_SID")
    twilio_auth_token: SecretStr = Field(SecretStr(""), validation_alias="TWILIO_AUTH_TOKEN")
    twilio_auth_token_second: SecretStr = Field(
        SecretStr(""), validation_alias="TWILIO_AUTH_TOKEN_SECOND"
    )
    twilio_from: str = Field("", validation_alias="TWILIO_FROM")
    twilio_messaging_service_sid: str = Field("", validation_alias="TWILIO_MESSAGING_SERVICE_SID")
    twilio_webhook_url: str = Field("", validation_alias="TWILIO_WEBHOOK_URL")
    twilio_api_url: str = Field("", validation_alias="TWILIO_API_URL")

    environment: Environment = Field(Environment.DEVELOPMENT, validation_alias=_wireroom("ENV"))
    data_dir: Path = Field(Path("var"), validation_alias=_wireroom("DATA_DIR"))
    email_provider: str = Field("", validation_alias=_wireroom("EMAIL_PROVIDER"))
    sms_provider: str = Field("", validation_alias=_wireroom("SMS_PROVIDER"))
    email_from: str = Field("wireroom@example.com", validation_alias=_wireroom("EMAIL_FROM"))
    kinds: str = Field("", validation_alias=_wireroom("KINDS"))
    trusted_hosts: str = Field("", validation_alias=_wireroom("TRUSTED_HOSTS"))
    trusted_proxies: int = Field(0, ge=0, le=10, validation_alias=_wireroom("TRUSTED_PROXIES"))
    email_tracking_strategy: str = Field(
        "metadata", validation_alias=_wireroom("EMAIL_TRACKING_STRATEGY")
    )
    stall_minutes: float = Field(10, gt=0, validation_alias=_wireroom("STALL_MINUTES"))
    stall_retries: int = Field(2, ge=0, validation_alias=_wireroom("STALL_RETRIES"))
    max_wait_hours: float = Field(72, gt=0, validation_alias=_wireroom("MAX_WAIT_HOURS"))
    sms_timeout_hours: float = Field(2, gt=0, validation_alias=_wireroom("SMS_TIMEOUT_HOURS"))
    email_timeout_hours: float = Field(72, gt=0, validation_alias=_wireroom("EMAIL_TIMEOUT_HOURS"))
    worker_heartbeat_minutes: float = Field(
        5, gt=0, validation_alias=_wireroom("WORKER_HEARTBEAT_MINUTES")
    )
    reconcile_seconds: float = Field(
        60, gt=0, le=300, validation_alias=_wireroom("RECONCILE_SECONDS")
    )
    release_seconds: float = Field(5, gt=0, validation_alias=_wireroom("RELEASE_SECONDS"))
    match_seconds: float = Field(10, gt=0, validation_alias=_wireroom("MATCH_SECONDS"))
    poll_seconds: float = Field(30, gt=0, validation_alias=_wireroom("POLL_SECONDS"))
    lost_job_seconds: float = Field(30, gt=0, validation_alias=_wireroom("LOST_JOB_SECONDS"))
    worker_gone_seconds: float = Field(30, gt=0, validation_alias=_wireroom("WORKER_GONE_SECONDS"))
    send_deadline_seconds: float = Field(
        120, gt=0, validation_alias=_wireroom("SEND_DEADLINE_SECONDS")
    )
    retry_base_seconds: float = Field(16, gt=0, validation_alias=_wireroom("RETRY_BASE_SECONDS"))
    dispatch_retention_days: float = Field(
        90, gt=0, validation_alias=_wireroom("DISPATCH_RETENTION_DAYS")
    )
    content_retention_days: float = Field(
        365, gt=0, validation_alias=_wireroom("CONTENT_RETENTION_DAYS")
    )
    attachment_root: str = Field("", validation_alias=_wireroom("ATTACHMENT_ROOT"))
    attachment_max_bytes: int = Field(
        25 * 1024 * 1024, gt=0, validation_alias=_wireroom("ATTACHMENT_MAX_BYTES")
    )
    attachment_max_age_seconds: int | None = Field(
        None, ge=0, validation_alias=_wireroom("ATTACHMENT_MAX_AGE_SECONDS")
    )
    send_concurrency: int = Field(16, ge=1, le=200, validation_alias=_wireroom("SEND_CONCURRENCY"))
    send_batch: int = Field(100, ge=1, le=1000, validation_alias=_wireroom("SEND_BATCH"))

    @model_validator(mode="after")
    def _require_secrets_in_production(self) -> Self:
        if self.environment is Environment.PRODUCTION:
            missing = [
                name
                for name, value in (
                    ("SECRET_KEY", self.secret_key.get_secret_value()),
                    ("DATABASE_URL", self.database_url),
                    ("REDIS_URL", self.redis_url),
                    ("PUBLIC_BASE_URL", self.public_base_url),
                )
                if not value
            ]
            if missing:
                raise ValueError(f"production needs {', '.join(missing)}; see README, Settings")
        return self

    @property
    def email_route(self) -> str:
        """The route that email goes out by: the configured one, else SMTP if set, else sandbox."""
        return self.email_provider or ("smtp" if self.smtp_url.get_secret_value() else "sandbox")

    @property
    def sms_route(self) -> str:
        """The route that SMS go out by: the configured one, else Twilio if set, else sandbox."""
        return self.sms_provider or ("twilio" if self.twilio_account_sid else "sandbox")

    @property
    def is_production(self) -> bool:
        """Whether this is the installation that real people get mail from."""
        return self.environment is Environment.PRODUCTION


def load_settings(**given: Any) -> Settings:
    """Read the environment and complete what the embedded servers of `WIREROOM_DATA_DIR` know.

    Args:
        given: settings by field name that win over the environment (tests, `wireroom up`).

    Raises:
        SettingsInvalid: one line per variable: its name, what was expected, never the value.
    """
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise SettingsInvalid(_explain(error)) from None
    return settings.model_copy(update=_from_data_dir(settings))


def _from_data_dir(settings: Settings) -> dict[str, Any]:
    """Return what a running `wireroom up` wrote down for the settings that are not given."""
    update: dict[str, Any] = {}
    servers = read_servers_file(settings.data_dir)
    for name in ("database_url", "redis_url", "public_base_url"):
        if not getattr(settings, name) and servers.get(name):
            update[name] = servers[name]
    if not settings.secret_key.get_secret_value():
        update["secret_key"] = SecretStr(_secret_key(settings.data_dir))
    return update


def read_servers_file(data_dir: Path) -> dict[str, str]:
    """Return the URLs and process ids that `wireroom up` keeps in `DATA_DIR`, or nothing."""
    try:
        content = json.loads((data_dir / SERVERS_FILE).read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _secret_key(data_dir: Path) -> str:
    """Return this installation's key, made once; two processes that start together agree on it."""
    path = data_dir / "secret_key"
    try:
        return path.read_text()
    except OSError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".secret_key.{secrets.token_hex(4)}")
    draft.write_text(secrets.token_urlsafe(48))
    draft.chmod(0o600)
    try:
        os.link(draft, path)  # fails where another process was first: then its key is the key
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text()


def _explain(error: ValidationError) -> str:
    aliases = {
        name: str(field.validation_alias or name) for name, field in Settings.model_fields.items()
    }
    lines = []
    for problem in error.errors(include_url=False, include_context=False, include_input=False):
        place = str(problem["loc"][0]) if problem["loc"] else ""
        variable = aliases.get(place, place) or "Settings"
        lines.append(f"{variable}: {problem['msg']}.")
    return "\n".join([*lines, "See README, Settings."])


_used: list[Settings] = []


def current() -> Settings:
    """Return this process's settings, read at the first call."""
    if not _used:
        _used.append(load_settings())
    return _used[0]


def use(settings: Settings) -> None:
    """Make these the process's settings (tests, and hosts that configure Wireroom themselves)."""
    _used[:] = [settings]


def anymail_environment() -> dict[str, str]:
    """Return every `ANYMAIL_…` variable of the environment and `.env`, without the prefix.

    Which of them an email provider takes, and which it needs, is known to its route.
    """
    prefix = "ANYMAIL_"
    given = {**dotenv_values(".env"), **raw_environment()}
    return {
        name.removeprefix(prefix): value
        for name, value in given.items()
        if name.startswith(prefix) and value
    }


def raw_environment() -> dict[str, str]:
    """Return a copy of the environment, for child processes and for `ANYMAIL_…` and `OIDC_…`."""
    return dict(os.environ)
