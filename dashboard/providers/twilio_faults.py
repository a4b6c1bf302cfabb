"""What the stand-in for Twilio's API does with single numbers, as data."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# The last two digits of +1 202 555 01xx: what comes of a message that was accepted.
NUMBERS: Mapping[str, tuple[str, str]] = {"00": ("", ""), "09": ("undelivered", "30003")}


@dataclass(frozen=True, slots=True)
class Fault:
    """How the API misbehaves for a number.

    Attributes:
        status, code: of the answer; status 0 is no answer at all.
        creates: whether the message exists all the same.
        wait_seconds: before the answer.
        headers, body: of the answer, where they are unusual.
    """

    status: int
    code: int = 0
    creates: bool = False
    wait_seconds: float = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


# By the last four digits of +1 500 555 xxxx.
FAULTS: Mapping[str, Fault] = {
    "0001": Fault(400, 21211),
    "0002": Fault(400, 21612),
    "0003": Fault(400, 21408),
    "0004": Fault(400, 21610),
    "0009": Fault(400, 21614),
    "0006": Fault(400, 21606),
    "0020": Fault(401, 20003),
    "0029": Fault(429, 20429, headers={"Retry-After": "7"}),
    "0038": Fault(400, 63038),
    "0050": Fault(500, 20500),
    "0053": Fault(503, body=b"<html>Service Unavailable</html>"),
    "0035": Fault(201, creates=True, wait_seconds=3.0),
    "0040": Fault(0, creates=True),
    "0041": Fault(201, creates=True, body=b'{"sid": "SM'),
}
