"""Requests as email services send them: each with a fresh signature of its own kind."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from dashboard.clock import now
from dashboard.providers import sns
from tests.providers.esp_settings import BASIC, POSTAL_KEY, SECRETS, SENDGRID_KEY, TOPIC

SNS_KEY = rsa.generate_private_key(65537, 2048)
SNS_CERTIFICATE = "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-madeup.pem"
BASE = "https://desk.example.com"
JSON = "application/json"


@dataclass(frozen=True)
class Signed:
    """A request to the webhook of a service."""

    esp: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def post(self, client: FlaskClient, **more: str) -> TestResponse:
        headers = {"Content-Type": JSON, **self.headers, **more}
        return client.post(f"/webhooks/email/{self.esp}", data=self.body, headers=headers)


def keep_certificate() -> None:
    """Let the process know the certificate of the test's own topic, as if it had fetched it."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(SNS_KEY.public_key())
        .serial_number(1)
        .not_valid_before(now() - timedelta(days=1))
        .not_valid_after(now() + timedelta(days=1))
        .sign(SNS_KEY, hashes.SHA256())
    )
    sns.CERTIFICATES.keep(SNS_CERTIFICATE, made.public_bytes(serialization.Encoding.PEM))


def sign(
    esp: str, body: Any, headers: Mapping[str, str] | None = None, *, tamper: str = "", ago: int = 0
) -> Signed:
    """Return the request that carries `body`.

    Args:
        tamper: what is wrong with it, if anything.
        ago: seconds since it was signed.
    """
    signers = {
        "mailersend": _mac("mailersend", "SIGNING_SECRET", "Signature"),
        "mailgun": _mailgun,
        "mailtrap": _mac("mailtrap", "TRACKING_SECRET", "Mailtrap-Signature"),
        "mandrill": _mandrill,
        "postal": _postal,
        "resend": _resend,
        "ses": _ses,
        "unisender_go": _unisender_go,
    }
    at = int(now().timestamp()) - ago
    signed = signers.get(esp, _basic)(esp, body, at, tamper)
    return replace(signed, headers={**(headers or {}), **signed.headers})


def encode(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


def _basic(esp: str, body: Any, _at: int, tamper: str) -> Signed:
    pair = BASIC + ("x" if tamper == "bad_signature" else "")
    value = "Basic " + base64.b64encode(pair.encode()).decode()
    return Signed(esp, encode(body), {} if tamper == "no_auth" else {"Authorization": value})


def _mac(name: str, setting: str, header: str) -> Any:
    def signer(esp: str, body: Any, _at: int, tamper: str) -> Signed:
        key = SECRETS[name][setting] + ("x" if tamper == "bad_signature" else "")
        content = encode(body)
        digest = hmac.new(key.encode(), content, hashlib.sha256).hexdigest()
        return Signed(esp, content, {} if tamper == "no_auth" else {header: digest})

    return signer


def _mailgun(esp: str, body: Any, at: int, tamper: str) -> Signed:
    if isinstance(body, bytes) or tamper == "no_signature_block":
        return Signed(esp, encode(body))
    key = SECRETS["mailgun"]["WEBHOOK_SIGNING_KEY"] + ("x" if tamper == "bad_signature" else "")
    token = hashlib.sha256(f"{body}{at}".encode()).hexdigest()[:50]
    digest = hmac.new(key.encode(), f"{at}{token}".encode(), hashlib.sha256).hexdigest()
    block = {"timestamp": str(at), "token": token, "signature": digest}
    return Signed(esp, encode({**body, "signature": block}))


def _mandrill(esp: str, body: Any, _at: int, tamper: str) -> Signed:
    key = SECRETS["mandrill"]["WEBHOOK_KEY"] + ("x" if tamper == "bad_signature" else "")
    events = encode(body).decode()
    url = f"{BASE}/webhooks/email/mandrill"
    digest = hmac.new(key.encode(), f"{url}mandrill_events{events}".encode(), hashlib.sha1).digest()
    form = urlencode({"mandrill_events": events}).encode()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Mandrill-Signature": base64.b64encode(digest).decode(),
    }
    return Signed(esp, form, headers)


def _postal(esp: str, body: Any, _at: int, tamper: str) -> Signed:
    content = encode(body)
    signature = POSTAL_KEY.sign(
        content + (b"x" if tamper == "bad_signature" else b""),
        padding.PKCS1v15(),
        hashes.SHA1(),  # noqa: S303 - the service's own choice
    )
    return Signed(esp, content, {"X-Postal-Signature": base64.b64encode(signature).decode()})


def _resend(esp: str, body: Any, at: int, tamper: str) -> Signed:
    key = base64.b64decode(SECRETS["resend"]["SIGNING_SECRET"].split("_", 1)[1])
    key += b"x" if tamper == "bad_signature" else b""
    at += 3600 if tamper == "future_timestamp" else 0
    content, identifier = encode(body), "msg_" + hashlib.sha256(encode(body)).hexdigest()[:16]
    digest = hmac.new(key, f"{identifier}.{at}.".encode() + content, hashlib.sha256).digest()
    headers = {
        "svix-id": identifier,
        "svix-timestamp": str(at),
        "svix-signature": "v1," + base64.b64encode(digest).decode(),
    }
    return Signed(esp, content, headers)


def sendgrid_by_key(body: Any, *, ago: int = 0, key: Any = SENDGRID_KEY) -> Signed:
    """Return a request signed as SendGrid does where its signature is switched on."""
    at, content = str(int(now().timestamp()) - ago), encode(body)
    signature = key.sign(at.encode() + content, ec.ECDSA(hashes.SHA256()))
    headers = {
        "X-Twilio-Email-Event-Webhook-Timestamp": at,
        "X-Twilio-Email-Event-Webhook-Signature": base64.b64encode(signature).decode(),
    }
    return Signed("sendgrid", content, headers)


SNS_NAMES = sorted(
    ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
)


def sns_envelope(message: Any, at: int, **more: str) -> dict[str, Any]:
    """Return an SNS message, signed with the test's key."""
    text = message if isinstance(message, str) else json.dumps(message)
    moment = (now() - timedelta(seconds=int(now().timestamp()) - at)).isoformat()
    envelope: dict[str, Any] = {
        "Type": "Notification",
        "MessageId": "00000000-0000-4000-8000-000000000001",
        "TopicArn": TOPIC,
        "Message": text,
        "Timestamp": moment,
        "SignatureVersion": "2",
        "SigningCertURL": SNS_CERTIFICATE,
        **more,
    }
    is_old = envelope["SignatureVersion"] == "1"
    kind = hashes.SHA1() if is_old else hashes.SHA256()  # noqa: S303 - Amazon's own choice
    signed = "".join(f"{name}\n{envelope[name]}\n" for name in SNS_NAMES if name in envelope)
    signature = SNS_KEY.sign(signed.encode(), padding.PKCS1v15(), kind)
    return {**envelope, "Signature": base64.b64encode(signature).decode()}


def _ses(esp: str, body: Any, at: int, tamper: str) -> Signed:
    if isinstance(body, bytes):
        return Signed(esp, body)
    given = {name: body[name] for name in ("MessageId", "TopicArn", "Subject", "Type")}
    envelope = sns_envelope(body["Message"], at, **given)
    if tamper == "bad_signature":
        envelope["Message"] += " "
    headers = {
        "x-amz-sns-message-type": envelope["Type"],
        "x-amz-sns-message-id": envelope["MessageId"],
        "Content-Type": "text/plain; charset=UTF-8",
    }
    if tamper == "header_mismatch":
        headers["x-amz-sns-message-type"] = "SubscriptionConfirmation"
    return Signed(esp, encode(envelope), headers)


def _unisender_go(esp: str, body: Any, _at: int, tamper: str) -> Signed:
    if isinstance(body, bytes):
        return Signed(esp, body)
    key = "a api key" + ("x" if tamper == "bad_signature" else "")
    placeholder = "0" * 32
    content = encode({**body, "auth": placeholder}).decode()
    signed = content.replace(placeholder, key).encode()
    digest = hashlib.md5(signed).hexdigest()  # noqa: S324 - the service's own choice
    return Signed(esp, content.replace(placeholder, digest).encode())
