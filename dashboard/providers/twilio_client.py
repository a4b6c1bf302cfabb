"""The twilio client with time limits, another address if wanted, and the headers it hides.

Imported only when an SMS route is built: it costs a third of a second and 16 MB.
"""

import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from twilio.http import HttpClient
from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client

CONNECT_SECONDS = 5.0
# The API's own limit is about 30 s; waiting a little longer turns doubts into answers.
READ_SECONDS = 35.0


class BoundedHttpClient(TwilioHttpClient):  # type: ignore[misc]  # twilio has no types
    """Splits connect and read timeouts, and keeps the headers of the last answer per thread."""

    def __init__(self, api_url: Callable[[], str], timeouts: tuple[float, float]) -> None:
        super().__init__()
        # The constructor takes one number only; a pair is what requests understands.
        self.timeout: Any = timeouts
        # Asked for each call: a stand-in may come back on another port.
        self._api_url = api_url
        self._last = threading.local()

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        """Call the API at the address that is configured, and remember the answer's headers."""
        self._last.headers = {}
        response = super().request(method, self._moved(url), *args, **kwargs)
        self._last.headers = dict(getattr(response, "headers", None) or {})
        return response

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers of this thread's last answer: exceptions carry none."""
        return {
            str(name).lower(): str(value)
            for name, value in getattr(self._last, "headers", {}).items()
        }

    def _moved(self, url: str) -> str:
        address = urlsplit(self._api_url())
        if not address.netloc:
            return url
        return urlunsplit((address.scheme, address.netloc, *urlsplit(url)[2:]))


def make_client(account_sid: str, auth_token: str, http: HttpClient) -> Client:
    """Return a client of one account."""
    return Client(account_sid, auth_token, http_client=http)
