"""`/webhooks/…`: what providers say later. Verified on the raw body, stored, answered at once.

No input gives a 5xx, except when nothing could be stored or there is no secret to check it with:
then the provider has to repeat it.
"""

import logging

from flask import Blueprint, Response, request
from sqlalchemy.exc import SQLAlchemyError

from dashboard.access.requires import public
from dashboard.database import db
from dashboard.dispatch.reports.applying import receive
from dashboard.dispatch.reports.rejections import note_refused
from dashboard.dispatch.reports.webhook_routes import Reporter, reporter_for, sms_reporter
from dashboard.providers.base import (
    CredentialsWanted,
    RequestRefused,
    WebhookRequest,
    WebhookUnusable,
)
from dashboard.settings import current

logger = logging.getLogger("wireroom.webhooks")

blueprint = Blueprint("webhooks", __name__, url_prefix="/webhooks")

LARGEST = 2 * 1024 * 1024


@blueprint.get("/email/<esp>", provide_automatic_options=False)
@public("providers probe the address before they use it")
def probe(esp: str) -> Response:
    """Answer a provider's probe, by HEAD or GET; it says nothing about what is configured."""
    return Response(status=200 if esp else 404)


@blueprint.post("/email/<esp>")
@public("every request is checked against the provider's signature")
def email(esp: str) -> Response:
    """Take the reports of an email provider."""
    reporter = reporter_for(esp, current())
    return _answer(reporter) if reporter else Response("no such provider", status=404)


@blueprint.post("/twilio/status")
@public("every request is checked against the account's signature")
def twilio_status() -> Response:
    """Take a status callback."""
    reporter = sms_reporter(current())
    return _answer(reporter) if reporter else Response("no such provider", status=404)


def _answer(reporter: Reporter) -> Response:
    """Verify, store and apply; 2xx as soon as it is stored."""
    if (request.content_length or 0) > LARGEST:
        return Response("too large", status=413)
    try:
        received = _received()
        reporter.verify(received)
        reports = reporter.parse(received)
    except RequestRefused as error:
        return _refusal(reporter, error)
    try:
        receive(db.session, reports)
    except SQLAlchemyError:
        db.session.rollback()
        logger.exception("reports not stored", extra={"provider": reporter.name})
        return Response("not stored, please repeat", status=503)
    return Response(status=204)


def _refusal(reporter: Reporter, error: RequestRefused) -> Response:
    """Answer what is not believed; 503 only where a person has to set the secret first."""
    if isinstance(error, CredentialsWanted):
        challenge = {"WWW-Authenticate": 'Basic realm="Wireroom"'}
        return Response("who are you?", status=401, headers=challenge)
    note_refused(reporter.name, str(error), current())
    if isinstance(error, WebhookUnusable):
        return Response("not configured", status=503)
    return Response("refused", status=403)


def _received() -> WebhookRequest:
    return WebhookRequest(
        method=request.method,
        path=request.path,
        query_string=request.environ.get("QUERY_STRING", ""),
        headers=dict(request.headers.items()),
        body=request.get_data(cache=False),
    )
