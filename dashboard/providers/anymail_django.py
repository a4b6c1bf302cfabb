"""The only doorway to Django and anymail: configured once per process, never as a project.

Importing this module costs about 15 ms and 2 MB; it is imported when an anymail route is built.
"""

import threading
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from django.conf import settings

from dashboard.providers.anymail_esps import Idempotency
from dashboard.providers.anymail_settings import BOOLEANS, Configuration

_lock = threading.Lock()
_POOL_SIZE = 50


def configure() -> None:
    """Give Django the few settings that mail needs, unless a host has configured it already."""
    with _lock:
        if not settings.configured:
            settings.configure(
                USE_TZ=True,
                TIME_ZONE="UTC",
                SECRET_KEY="unused",  # noqa: S106 - nothing is signed with it
                LOGGING_CONFIG=None,
                # The body's size is bounded before Django sees it.
                DATA_UPLOAD_MAX_MEMORY_SIZE=None,
            )


def quietly(build: Callable[..., Any], **arguments: Any) -> Any:
    """Build a backend or view; what it warns about is known to us (SendGrid, missing basic auth).

    One at a time: the list of warning filters belongs to the whole process.
    """
    with _lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return build(**arguments)


def view_of(configuration: Configuration) -> Any:
    """Return the view that checks and reads the service's webhooks.

    Args:
        configuration: one that has a secret for them.
    """
    configure()
    esp = configuration.esp
    cls = getattr(import_module(f"anymail.webhooks.{esp.module}"), esp.view)
    # Basic auth by its other name makes anymail warn that there is none.
    arguments: dict[str, Any] = {"webhook_secret": list(configuration.basic_auth)}
    if esp.secret_argument and configuration.secret:
        arguments[esp.secret_argument] = configuration.secret
    if esp.name == "mandrill":
        arguments["webhook_url"] = configuration.webhook_url
    if esp.name == "ses":
        # Ours confirms subscriptions: it knows the topics.
        arguments["auto_confirm_sns_subscriptions"] = False
    return quietly(cls, **arguments)


def backend_of(configuration: Configuration) -> Any:
    """Return a backend of its own, with everything it needs given explicitly; it is not open."""
    configure()
    esp = configuration.esp
    cls = import_module(f"anymail.backends.{esp.module}").EmailBackend
    if esp.idempotency is Idempotency.HTTP_HEADER:
        cls = _with_key_header(cls)
    arguments = dict(_ses(configuration) if esp.name == "ses" else _http(configuration))
    if configuration.send_defaults:
        arguments["send_defaults"] = dict(configuration.send_defaults)
    return quietly(cls, **arguments)


def _http(configuration: Configuration) -> Mapping[str, Any]:
    not_the_backends = {*configuration.esp.secrets, "SEND_DEFAULTS", "WEBHOOK_SECRET"}
    not_the_backends -= set(configuration.esp.required)
    arguments: dict[str, Any] = {"timeout": configuration.timeouts}
    for name, value in configuration.values.items():
        if name not in not_the_backends | {"WEBHOOK_URL"}:
            arguments[name.lower()] = value
    return {**arguments, **_flags(configuration)}


def _flags(configuration: Configuration) -> Mapping[str, bool]:
    found = {name.lower(): configuration.flag(name) for name in BOOLEANS}
    return {name: value for name, value in found.items() if value is not None}


def _ses(configuration: Configuration) -> Mapping[str, Any]:
    values = configuration.values
    connect, read = configuration.timeouts
    client: dict[str, Any] = {
        "region_name": values["REGION"],
        "config": {
            "connect_timeout": connect,
            "read_timeout": read,
            "max_pool_connections": _POOL_SIZE,
            # A repeated call could be a second message: who repeats is decided elsewhere.
            "retries": {"total_max_attempts": 1},
        },
    }
    given = {
        "endpoint_url": values.get("API_URL"),
        "aws_access_key_id": values.get("ACCESS_KEY_ID"),
        "aws_secret_access_key": values.get("SECRET_ACCESS_KEY"),
        "aws_session_token": values.get("SESSION_TOKEN"),
    }
    client.update({name: value for name, value in given.items() if value})
    return {
        "client_params": client,
        "session_params": {},
        "configuration_set_name": values.get("CONFIGURATION_SET_NAME"),
        "message_tag_name": values.get("MESSAGE_TAG_NAME"),
    }


def _with_key_header(cls: Any) -> Any:
    """Return a backend that sends a message's idempotency key as an HTTP header.

    An entry of a message's own headers would go out in the email, where it has no effect.
    """

    class Backend(cls):  # type: ignore[misc]  # anymail has no types
        def post_to_esp(self, payload: Any, message: Any) -> Any:
            payload.headers["Idempotency-Key"] = message.idempotency_key
            return super().post_to_esp(payload, message)

    return Backend
