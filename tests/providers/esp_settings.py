"""Environment variables that make an email service usable in a test."""

import base64
from collections.abc import Mapping

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from dashboard.providers.anymail_bridge import AnymailProvider
from dashboard.providers.anymail_esps import ESPS
from dashboard.providers.anymail_settings import configuration
from dashboard.settings import Settings

BASIC = "hooks:a long password"
TOPIC = "arn:aws:sns:eu-west-1:000000000001:ses-events"
# The pairs that Postal, SendGrid and Amazon sign with, made for this run.
POSTAL_KEY = rsa.generate_private_key(65537, 2048)
SENDGRID_KEY = ec.generate_private_key(ec.SECP256R1())


def public_part(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    """Return the public key as services show it: base64 without the lines around it."""
    encoded = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return base64.b64encode(encoded).decode()


SECRETS: Mapping[str, Mapping[str, str]] = {
    "mailersend": {"SIGNING_SECRET": "mailersend secret"},
    "mailgun": {"WEBHOOK_SIGNING_KEY": "mailgun signing key"},
    "mailtrap": {"TRACKING_SECRET": "mailtrap secret"},
    "mandrill": {"WEBHOOK_KEY": "mandrill key"},
    "postal": {"WEBHOOK_KEY": public_part(POSTAL_KEY)},
    "resend": {"SIGNING_SECRET": "whsec_d2lyZXJvb20tdGVzdC1zZWNyZXQtMDAwMQ=="},
    "ses": {"TOPIC_ARNS": TOPIC},
}


def set_up(
    monkeypatch: pytest.MonkeyPatch, esp: str, url: str = "", *, secret: bool = True, **more: str
) -> None:
    """Set what a service needs; with `secret` also what checks its webhooks."""
    known = ESPS[esp]
    values = {name: f"a {name.lower().replace('_', ' ')}" for name in known.required}
    values["API_URL"] = url or "http://127.0.0.1:9/"
    if esp == "ses":
        values |= {"REGION": "eu-west-1", "ACCESS_KEY_ID": "AKID", "SECRET_ACCESS_KEY": "s"}
    if esp == "mailgun":
        values["SENDER_DOMAIN"] = "mg.example.com"
    if secret:
        values |= SECRETS.get(esp, {})
        monkeypatch.setenv("ANYMAIL_WEBHOOK_SECRET", BASIC)
    for name, value in {**values, **more}.items():
        monkeypatch.setenv(known.variable(name), value)


def provider(esp: str, settings: Settings) -> AnymailProvider:
    """Return the provider of a service under the environment of now."""
    return AnymailProvider(configuration(esp, settings))
