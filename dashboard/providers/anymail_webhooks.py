"""Webhooks of email services: anymail's checks and ours, then each event of a batch on its own.

anymail's own handler gives up a whole batch for one malformed event; so the batch is taken apart
here, and its view is asked about one event at a time.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from typing import Any

from anymail.exceptions import AnymailConfigurationError, AnymailError
from django.core.exceptions import SuspiciousOperation
from django.core.handlers.wsgi import WSGIRequest

from dashboard.clock import now
from dashboard.providers import sns
from dashboard.providers.anymail_django import view_of
from dashboard.providers.anymail_reports import report_of, unreadable
from dashboard.providers.anymail_settings import Configuration, missing_secret
from dashboard.providers.base import (
    CredentialsWanted,
    Report,
    RequestRefused,
    WebhookRequest,
    WebhookUnusable,
)
from dashboard.providers.tracking import TrackingStrategy

logger = logging.getLogger("wireroom.anymail")

# All that foreign input makes anymail's checks and parsers raise.
_MALFORMED = (
    AnymailConfigurationError,
    AnymailError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RecursionError,
    SuspiciousOperation,
    TypeError,
    ValueError,
)
_FRESH_SECONDS = 24 * 60 * 60
_SENDGRID_TIME = "x-twilio-email-event-webhook-timestamp"
_SNS_READY = "Successfully validated SNS topic for Amazon SES event publishing."

Read = Callable[[], Sequence[Any]]
Events = Iterator[tuple[object, Read]]


class Webhook:
    """The webhook of one service."""

    def __init__(self, configuration: Configuration, strategy: TrackingStrategy) -> None:
        self._configuration = configuration
        self._strategy = strategy
        self._esp = configuration.esp

    @cached_property
    def _view(self) -> Any:
        return view_of(self._configuration)

    def verify(self, request: WebhookRequest) -> None:
        """Check that the service sent a request, and not long ago where it says when.

        Raises:
            WebhookUnusable: there is no secret to check it with.
            CredentialsWanted: it has no basic auth, which the configuration asks for.
            RequestRefused: it was not signed by the service, or more than 24 hours ago.
        """
        if not self._configuration.checks_webhooks:
            raise WebhookUnusable(missing_secret(self._esp))
        headers = {name.lower(): value for name, value in request.headers.items()}
        if self._configuration.basic_auth and "authorization" not in headers:
            raise CredentialsWanted("It has no basic auth.")
        if self._esp.name == "ses":
            topics = {one.strip() for one in self._configuration.secret.split(",")}
            sns.verify(_object(request.body), topics=topics, at=now())
        try:
            self._view.run_validators(django_request(request))
        except _MALFORMED as error:
            raise RequestRefused(f"{type(error).__name__} when it was checked.") from error
        self._require_fresh(request, headers)

    def _require_fresh(self, request: WebhookRequest, headers: Mapping[str, str]) -> None:
        """Refuse old signatures of Mailgun and SendGrid, which anymail takes for ever."""
        if self._esp.name == "mailgun":
            signed_at = _mailgun_time(request)
        elif self._esp.name == "sendgrid" and self._configuration.secret:
            signed_at = headers.get(_SENDGRID_TIME, "")
        else:
            return
        if not (signed_at.isascii() and signed_at.isdigit() and len(signed_at) < 12):
            raise RequestRefused("Its signature has no time.")
        if abs(now().timestamp() - int(signed_at)) > _FRESH_SECONDS:
            raise RequestRefused("It was signed more than 24 hours from now.")

    def parse(self, request: WebhookRequest) -> list[Report]:
        """Return the reports of a verified request; a malformed event costs only itself.

        Raises:
            RequestRefused: the body as a whole is not of the service's making.
        """
        reports: list[Report] = []
        for raw, read in self._events(request):
            try:
                reports += [self._report(event, raw) for event in read()]
            except _MALFORMED as error:
                fields = {"provider": self._configuration.name, "error": type(error).__name__}
                logger.warning("event not readable", extra=fields)
                reports.append(unreadable(raw, self._configuration.name))
        return reports

    def _report(self, event: Any, raw: object) -> Report:
        return report_of(event, raw, self._configuration.name, self._strategy)

    def _events(self, request: WebhookRequest) -> Events:
        split = _SPLITS.get(self._esp.name, _single)
        try:
            yield from split(self._view, request)
        except _MALFORMED as error:
            raise RequestRefused("The body is not of this service's form.") from error


def django_request(request: WebhookRequest) -> WSGIRequest:
    """Return the request as Django sees it: raw body, raw query, headers."""
    environ: dict[str, Any] = {
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query_string,
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "80",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "wsgi.url_scheme": "http",
        "wsgi.input": BytesIO(request.body),
    }
    for name, value in request.headers.items():
        environ[f"HTTP_{name.upper().replace('-', '_')}"] = value
    environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE", "")
    environ["CONTENT_LENGTH"] = str(len(request.body))
    return WSGIRequest(environ)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise RequestRefused("The body is not JSON.") from None


def _object(body: bytes) -> Mapping[str, Any]:
    content = _json(body)
    if not isinstance(content, dict):
        raise RequestRefused("The body is not a JSON object.")
    return content


def _list(content: object) -> list[Any]:
    if not isinstance(content, list):
        raise RequestRefused("The body has no list of events.")
    return content


def _mailgun_time(request: WebhookRequest) -> str:
    """Return the time that Mailgun's signature covers; the request is verified already."""
    django = django_request(request)
    if django.content_type != "application/json":
        return str(django.POST.get("timestamp", ""))
    return str(_object(request.body)["signature"]["timestamp"])


def _one(view: Any, raw: object) -> Read:
    return lambda: [view.esp_to_anymail_event(raw)]


def _single(view: Any, request: WebhookRequest) -> Events:
    raw = _object(request.body)
    if "items" in raw or raw.get("type") == "inbound.message":
        raise RequestRefused("It reports received mail; that webhook belongs elsewhere.")
    yield raw, _one(view, raw)


def _many(view: Any, request: WebhookRequest) -> Events:
    for raw in _list(_json(request.body)):
        yield raw, _one(view, raw)


def _mailjet(view: Any, request: WebhookRequest) -> Events:
    content = _json(request.body)
    for raw in [content] if isinstance(content, dict) else _list(content):
        yield raw, _one(view, raw)


def _mailtrap(view: Any, request: WebhookRequest) -> Events:
    for raw in _list(_object(request.body).get("events")):
        yield raw, _one(view, raw)


def _mailgun(view: Any, request: WebhookRequest) -> Events:
    django = django_request(request)
    if django.content_type == "application/json":
        yield from _single(view, request)
        return
    form = django.POST
    yield form.dict(), lambda: [view.mailgun_legacy_to_anymail_event(form)]


def _mandrill(view: Any, request: WebhookRequest) -> Events:
    events = _list(_json(django_request(request).POST["mandrill_events"].encode()))
    for raw in events:
        # Not the view's own way in: it remembers what the first event of its life was about.
        yield raw, _mandrill_event(view, raw)


def _mandrill_event(view: Any, raw: Any) -> Read:
    return lambda: (
        [] if raw.get("event") == "inbound" else [view.mandrill_tracking_to_anymail_event(raw)]
    )


def _postal(view: Any, request: WebhookRequest) -> Events:
    yield _object(request.body), lambda: view.parse_events(django_request(request))


def _resend(view: Any, request: WebhookRequest) -> Events:
    raw = _object(request.body)
    yield raw, lambda: [view.esp_to_anymail_event(raw, django_request(request))]


def _sparkpost(view: Any, request: WebhookRequest) -> Events:
    for raw in _list(_json(request.body)):
        yield raw, _sparkpost_event(view, raw)


def _sparkpost_event(view: Any, raw: Any) -> Read:
    def read() -> Sequence[Any]:
        event_class, event, _ = view.unwrap_event(raw)
        # An empty one is a ping.
        return [] if event is None else [view.esp_to_anymail_event(event_class, event, raw)]

    return read


def _ses(view: Any, request: WebhookRequest) -> Events:
    envelope = _object(request.body)
    if envelope.get("Type") == "SubscriptionConfirmation":
        sns.confirm(envelope)
    if envelope.get("Type") != "Notification" or envelope.get("Message") == _SNS_READY:
        return
    raw = _object(str(envelope.get("Message", "")).encode())
    yield raw, lambda: view.esp_to_anymail_events(raw, envelope)


def _unisender_go(view: Any, request: WebhookRequest) -> Events:
    content = _object(request.body)
    if "events_by_user" in content:
        users = _list(content["events_by_user"])
        named = [event for user in users for event in _list(user.get("events"))]
    else:
        named = [{**content, "event_data": content}]
    for one in named:
        if one.get("event_name") == "transactional_email_status":
            yield one["event_data"], _one(view, one["event_data"])


_SPLITS: Mapping[str, Callable[[Any, WebhookRequest], Events]] = {
    "mailgun": _mailgun,
    "mailjet": _mailjet,
    "mailtrap": _mailtrap,
    "mandrill": _mandrill,
    "postal": _postal,
    "resend": _resend,
    "sendgrid": _many,
    "ses": _ses,
    "sparkpost": _sparkpost,
    "unisender_go": _unisender_go,
}
