"""Amazon's notifications: only the topics of the list, only SNS's own addresses."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from flask.testing import FlaskClient
from sqlalchemy.orm import Session, scoped_session

from dashboard.clock import now
from dashboard.providers import sns
from dashboard.settings import Settings
from tests.pages.esp_reports import all_configured, events_of, reports
from tests.pages.esp_signing import encode, sns_envelope
from tests.providers.esp_settings import TOPIC


@pytest.fixture(autouse=True)
def _services(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with all_configured(settings, monkeypatch):
        yield


class TestAmazon:
    """Only the topics of the list, only SNS's own addresses."""

    def post(self, client: FlaskClient, envelope: dict[str, Any]) -> int:
        headers = {
            "x-amz-sns-message-type": envelope["Type"],
            "x-amz-sns-message-id": envelope["MessageId"],
        }
        response = client.post(
            "/webhooks/email/ses", data=encode(envelope), headers=headers, content_type="text/plain"
        )
        return response.status_code

    def test_both_versions_of_the_signature_are_taken(
        self, client: FlaskClient, session: scoped_session[Session]
    ) -> None:
        at = int(now().timestamp())
        message = events_of("ses")["delivery"]["body"]["Message"]
        for version in ("1", "2"):
            assert self.post(client, sns_envelope(message, at, SignatureVersion=version)) == 204

    @pytest.mark.parametrize(
        "changes",
        [
            {"TopicArn": "arn:aws:sns:eu-west-1:000000000002:ses-events"},
            {"TopicArn": ""},
            {"SignatureVersion": "3"},
            {"SigningCertURL": "https://sns.eu-west-1.amazonaws.com.evil.example/a.pem"},
            {"SigningCertURL": "https://sns.eu-west-1.amazonaws.com@127.0.0.1:9/a.pem"},
            {"SigningCertURL": "http://sns.eu-west-1.amazonaws.com/a.pem"},
            {"SigningCertURL": "http://127.0.0.1:9/a.pem"},
            {"SigningCertURL": "https://sns.eu-west-1.amazonaws.com/a.txt"},
            {"SigningCertURL": ""},
        ],
    )
    def test_foreign_topics_and_addresses_are_refused_without_a_fetch(
        self,
        client: FlaskClient,
        session: scoped_session[Session],
        changes: dict[str, str],
    ) -> None:
        message = events_of("ses")["delivery"]["body"]["Message"]
        began = time.perf_counter()
        assert self.post(client, sns_envelope(message, int(now().timestamp()), **changes)) == 403
        assert time.perf_counter() - began < 1
        assert reports(session) == []

    @pytest.mark.parametrize(
        "url",
        [
            "http://127.0.0.1:9/confirm",
            "https://sns.eu-west-1.amazonaws.com.evil.example/?Action=ConfirmSubscription",
            f"https://sns.eu-west-1.amazonaws.com/?Action=Publish&TopicArn={TOPIC}",
            "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=arn:x",
        ],
    )
    def test_a_confirmation_that_leads_elsewhere_is_refused(
        self, client: FlaskClient, url: str
    ) -> None:
        asked = sns_envelope(
            "You have chosen to subscribe",
            int(now().timestamp()),
            Type="SubscriptionConfirmation",
            SubscribeURL=url,
            Token="t",
        )
        assert self.post(client, asked) == 403

    def test_a_confirmation_asks_sns_itself(self) -> None:
        url = (
            "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription"
            f"&TopicArn={TOPIC}&Token=t"
        )
        asked: list[str] = []

        def get(address: str) -> bytes:
            asked.append(address)
            return b""

        sns.confirm({"TopicArn": TOPIC, "SubscribeURL": url}, get)
        assert asked == [url]

    def test_the_last_word_of_a_topic_changes_nothing(
        self, client: FlaskClient, session: scoped_session[Session]
    ) -> None:
        at = int(now().timestamp())
        farewell = sns_envelope("bye", at, Type="UnsubscribeConfirmation")
        ready = "Successfully validated SNS topic for Amazon SES event publishing."
        assert self.post(client, farewell) == 204
        assert self.post(client, sns_envelope(ready, at)) == 204
        assert self.post(client, sns_envelope("not JSON", at)) == 403
        assert reports(session) == []

    def test_a_certificate_is_fetched_once(self) -> None:
        fetched: list[str] = []

        def get(url: str) -> bytes:
            fetched.append(url)
            return b"no certificate"

        certificates = sns.Certificates(get)
        with pytest.raises(sns.RequestRefused):
            certificates.key("https://sns.eu-west-1.amazonaws.com/a.pem")
        assert len(fetched) == 1
        kept = sns.CERTIFICATES.key(
            "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-madeup.pem"
        )
        assert kept.key_size == 2048
