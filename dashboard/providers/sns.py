"""Messages of Amazon SNS: is it really a topic of ours that speaks.

A topic has to be on the allow-list before anything is fetched, and nothing is fetched from anywhere
but `https://sns.<region>.amazonaws.com`: certificates once, and the confirmation of a subscription.
"""

import base64
import binascii
import re
import threading
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import requests
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from dashboard.providers.base import RequestRefused

FRESH_FOR = timedelta(hours=24)
FETCH_SECONDS = (3.0, 5.0)
LARGEST_FETCH = 64 * 1024
_MOST_CERTIFICATES = 20
_HOST = re.compile(r"sns\.[a-z0-9-]{1,30}\.amazonaws\.com(\.cn)?")
_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_SUBSCRIPTION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_HASHES: Mapping[str, type[hashes.SHA1 | hashes.SHA256]] = {"1": hashes.SHA1, "2": hashes.SHA256}

Fetch = Callable[[str], bytes]


def fetch(url: str) -> bytes:
    """Return what is at an address of SNS; follows no redirect.

    Raises:
        RequestRefused: the address is not SNS's, or it does not answer as it must.
    """
    _require_sns(url)
    try:
        answer = requests.get(url, timeout=FETCH_SECONDS, allow_redirects=False, stream=True)
        with answer:
            content: bytes = answer.raw.read(LARGEST_FETCH, decode_content=True)
    except requests.RequestException as error:
        raise RequestRefused("SNS's own address did not answer.") from error
    if answer.status_code != requests.codes.ok:
        raise RequestRefused(f"SNS's own address answered {answer.status_code}.")
    return content


def _require_sns(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" or not _HOST.fullmatch(parts.netloc):
        raise RequestRefused("It names an address that is not SNS's.")


class Certificates:
    """Signing certificates by address, fetched once per process."""

    def __init__(self, get: Fetch = fetch) -> None:
        self._get = get
        self._lock = threading.Lock()
        self._kept: dict[str, rsa.RSAPublicKey] = {}

    def keep(self, url: str, pem: bytes) -> rsa.RSAPublicKey:
        """Keep a certificate for its address and return its key.

        Raises:
            RequestRefused: it is not a certificate with an RSA key.
        """
        try:
            key = x509.load_pem_x509_certificate(pem).public_key()
        except ValueError:
            raise RequestRefused("There is no certificate at the address it names.") from None
        if not isinstance(key, rsa.RSAPublicKey):
            raise RequestRefused("The certificate at the address it names has no RSA key.")
        with self._lock:
            if len(self._kept) >= _MOST_CERTIFICATES:
                self._kept.clear()
            self._kept[url] = key
        return key

    def key(self, url: str) -> rsa.RSAPublicKey:
        """Return the key of the certificate at an address of SNS.

        Raises:
            RequestRefused: the address is not SNS's, or there is no certificate.
        """
        _require_sns(url)
        if not urlsplit(url).path.endswith(".pem"):
            raise RequestRefused("It names a certificate that is not one.")
        with self._lock:
            kept = self._kept.get(url)
        return kept or self.keep(url, self._get(url))


CERTIFICATES = Certificates()


def verify(
    message: Mapping[str, object],
    *,
    topics: Collection[str],
    at: datetime,
    certificates: Certificates = CERTIFICATES,
) -> None:
    """Check topic, age and signature of a message, in this order: nothing is fetched for strangers.

    Raises:
        RequestRefused: another topic's, older or newer than 24 hours, or not signed by SNS.
    """
    texts = {name: value for name, value in message.items() if isinstance(value, str)}
    if texts.get("TopicArn") not in topics:
        raise RequestRefused("It is of a topic that is not on the list of ours.")
    if abs(_moment(texts.get("Timestamp", "")) - at) > FRESH_FOR:
        raise RequestRefused("It was signed more than 24 hours from now.")
    digest = _HASHES.get(texts.get("SignatureVersion", ""))
    if digest is None:
        raise RequestRefused("Its signature is of a version that is not known.")
    key = certificates.key(texts.get("SigningCertURL", ""))
    try:
        signature = base64.b64decode(texts.get("Signature", ""), validate=True)
        # Version 1 is SHA-1, which SNS still signs with unless it is told otherwise.
        key.verify(signature, _signed(texts), padding.PKCS1v15(), digest())
    except (InvalidSignature, binascii.Error, ValueError):
        raise RequestRefused("The signature does not fit.") from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RequestRefused("It has no time.") from None
    if moment.tzinfo is None:
        raise RequestRefused("Its time has no zone.")
    return moment


def _signed(texts: Mapping[str, str]) -> bytes:
    names = _NOTIFICATION if texts.get("Type") == "Notification" else _SUBSCRIPTION
    return "".join(f"{name}\n{texts[name]}\n" for name in names if name in texts).encode()


def confirm(message: Mapping[str, object], get: Fetch = fetch) -> None:
    """Confirm the subscription that a verified message asks about, at SNS's own address.

    Raises:
        RequestRefused: its address is not SNS's, or asks for something else.
    """
    url = str(message.get("SubscribeURL", ""))
    _require_sns(url)
    query = parse_qs(urlsplit(url).query)
    wanted = {"Action": "ConfirmSubscription", "TopicArn": message.get("TopicArn")}
    if any(query.get(name) != [value] for name, value in wanted.items()):
        raise RequestRefused("Its address does not confirm a subscription to its topic.")
    get(url)
