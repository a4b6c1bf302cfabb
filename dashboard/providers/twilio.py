"""The `twilio` route: SMS through the real client, its statuses, and the look-up after a doubt."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

import requests
from twilio.base.exceptions import TwilioException
from twilio.rest import Client

from dashboard.providers.base import (
    Capabilities,
    Email,
    Fetched,
    Key,
    LookedUp,
    Outcome,
    OutcomeKind,
    Report,
    Sms,
    WebhookRequest,
)
from dashboard.providers.twilio_client import (
    CONNECT_SECONDS,
    READ_SECONDS,
    BoundedHttpClient,
    make_client,
)
from dashboard.providers.twilio_outcomes import outcome_of, retry_after
from dashboard.providers.twilio_reports import callback_url, parse, report_of, verify

CALL_FAILURES = (TwilioException, requests.RequestException, ValueError)
LOOK_BACK = timedelta(seconds=5)
LOOK_AT = 200


@dataclass(frozen=True, slots=True)
class Account:
    """How a Twilio account is used.

    Attributes:
        webhook_url: where statuses are posted; empty in polling mode.
        sender, messaging_service_sid: one of them, where the message names no sender.
    """

    account_sid: str
    auth_token: str
    second_auth_token: str = ""
    sender: str = ""
    messaging_service_sid: str = ""
    webhook_url: str = ""
    api_url: str = ""
    timeouts: tuple[float, float] = (CONNECT_SECONDS, READ_SECONDS)


class TwilioProvider:
    """One Twilio account."""

    capabilities = Capabilities(gives_reports=True, can_look_up=True, can_fetch_status=True)

    def __init__(self, account: Account, name: str = "twilio") -> None:
        self.name = name
        self._account = account

    @cached_property
    def _http(self) -> BoundedHttpClient:
        return BoundedHttpClient(lambda: self.api_url(), self._account.timeouts)

    def api_url(self) -> str:
        """Return the address of the API, where it is another than Twilio's own."""
        return self._account.api_url

    @cached_property
    def _client(self) -> Client:
        return make_client(self._account.account_sid, self._account.auth_token, self._http)

    def send(self, message: Email | Sms, key: Key) -> Outcome:
        """Create one message; never raises for what the API or the network can do."""
        if isinstance(message, Email):
            return Outcome(OutcomeKind.PERMANENT, "This route carries SMS, not email.")
        try:
            created = self._client.messages.create(**self._parameters(message, key))
        except CALL_FAILURES as error:
            return outcome_of(error, self._http.headers)
        if not created.sid:
            return Outcome(OutcomeKind.UNKNOWN, "The API's answer names no message.")
        return Outcome(
            OutcomeKind.ACCEPTED,
            detail=f"{created.status} as {created.sid}",
            provider_message_id=str(created.sid),
            report_expected=True,
        )

    def _parameters(self, message: Sms, key: Key) -> dict[str, Any]:
        account = self._account
        parameters: dict[str, Any] = {"to": message.recipient, "body": message.body}
        if message.sender or account.sender:
            parameters["from_"] = message.sender or account.sender
        if account.messaging_service_sid and not message.sender:
            parameters.pop("from_", None)
            parameters["messaging_service_sid"] = account.messaging_service_sid
        if message.media_urls:
            parameters["media_url"] = list(message.media_urls)
        if message.validity_seconds:
            parameters["validity_period"] = message.validity_seconds
        if account.webhook_url:
            url = callback_url(account.webhook_url, key.dispatch_id, key.attempt)
            parameters["status_callback"] = url
        return parameters

    def fetch_status(self, provider_message_id: str) -> Fetched:
        """Ask for the status of one message; `report` is None where the API cannot say now."""
        try:
            found = self._client.messages(provider_message_id).fetch()
        except CALL_FAILURES as error:
            outcome = outcome_of(error, self._http.headers)
            return Fetched(None, outcome.detail, retry_after(self._http.headers))
        code = str(found.error_code or "")
        return Fetched(report_of(provider_message_id, str(found.status), code, self.name))

    def look_up(self, message: Sms, since: datetime) -> LookedUp:
        """Look whether a message of ours was created since an attempt began.

        By recipient, creation time, body and direction; never by the time it was sent, which an
        accepted message does not have yet. Two that look alike cannot be told apart.
        """
        try:
            found = self._matching(message, since - LOOK_BACK)
        except CALL_FAILURES as error:
            outcome = outcome_of(error, self._http.headers)
            return LookedUp(answered=False, detail=outcome.detail)
        if len(found) > 1:
            return LookedUp(answered=False, detail="Several messages look the same.")
        if not found:
            return LookedUp(answered=True, detail="The API has no such message.")
        one = found[0]
        return LookedUp(
            answered=True,
            report=report_of(str(one.sid), str(one.status), str(one.error_code or ""), self.name),
        )

    def _matching(self, message: Sms, since: datetime) -> Sequence[Any]:
        listed = self._client.messages.stream(to=message.recipient, limit=LOOK_AT, page_size=100)
        return [
            one
            for one in listed
            if one.date_created is not None
            and one.date_created >= since
            and one.body == message.body
            and str(one.direction).startswith("outbound")
        ]

    def verify(self, request: WebhookRequest) -> None:
        """Check that the account signed a status callback; raises RequestRefused."""
        account = self._account
        verify(
            request,
            webhook_url=account.webhook_url,
            account_sid=account.account_sid,
            tokens=(account.auth_token, account.second_auth_token),
        )

    def parse(self, request: WebhookRequest) -> list[Report]:
        """Return the report of a verified callback; raises RequestRefused."""
        return parse(request, self.name)

    def probe(self) -> Outcome:
        """Fetch the account: accepted means that address and credentials work."""
        try:
            found = self._client.api.accounts(self._account.account_sid).fetch()
        except CALL_FAILURES as error:
            return outcome_of(error, self._http.headers)
        return Outcome(OutcomeKind.ACCEPTED, f"The account is {found.status}.")

    def close(self) -> None:
        """Give back the connections."""
        session = getattr(self._http, "session", None)
        if session is not None:
            session.close()
