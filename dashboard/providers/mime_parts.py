"""MIME parts as octets: text, files and the multiparts around them, all 7-bit with CRLF line ends.

Written out here because the standard library parses every header that it is given: it needs 1.4 ms
for a small message, which is more than sending it takes. Header values come from `mime_headers`.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.providers.mime_headers import Unsendable

_LINE_END = re.compile(rb"\r\n|\r|\n")
_LONGEST_PLAIN_LINE = 900  # RFC 5322 allows 998
_TRAILING_SPACE = re.compile(rb"[ \t]\r\n")

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Part:
    """One part: its headers, and its body in pieces, so that large files are copied only once."""

    headers: Headers
    pieces: tuple[bytes, ...]

    def octets(self, more_headers: Headers = ()) -> bytes:
        """Return the part as a whole message."""
        return b"".join((_head([*more_headers, *self.headers]), *self.pieces))


def _head(headers: Headers) -> bytes:
    lines = [f"{name}: {value}\r\n" for name, value in headers]
    return "".join([*lines, "\r\n"]).encode("utf-8")


def text_part(field: str, subtype: str, text: str) -> Part:
    """Return `text` as `text/<subtype>`, written as plainly as 7 bits allow.

    Raises:
        Unsendable: there is a character in it that is not valid Unicode.
    """
    try:
        octets = text.encode("utf-8")
    except UnicodeEncodeError:
        raise Unsendable(f"The {field} has a character that is not valid Unicode.") from None
    octets = _LINE_END.sub(b"\r\n", octets)
    encoding, body = _encoded(octets if octets.endswith(b"\r\n") else octets + b"\r\n")
    headers = [
        ("Content-Type", f'text/{subtype}; charset="utf-8"'),
        ("Content-Transfer-Encoding", encoding),
    ]
    return Part(headers, (body,))


def _encoded(octets: bytes) -> tuple[str, bytes]:
    longest = max(map(len, octets.split(b"\r\n")))
    is_plain = octets.isascii() and longest <= _LONGEST_PLAIN_LINE and b"\0" not in octets
    if is_plain and not _TRAILING_SPACE.search(octets):
        return "7bit", octets
    high = sum(octet > 126 for octet in octets)
    if high > len(octets) // 6:  # then base64 is shorter
        return "base64", _base64(octets)
    printable = binascii.b2a_qp(octets, istext=True)
    return "quoted-printable", _LINE_END.sub(b"\r\n", printable)


def _base64(octets: bytes) -> bytes:
    return base64.encodebytes(octets).replace(b"\n", b"\r\n")


def binary_part(headers: Headers, content: bytes) -> Part:
    """Return a file, which a reader gets back byte for byte."""
    encoding = ("Content-Transfer-Encoding", "base64")
    return Part([*headers, encoding], (_base64(content),))


def multipart(subtype: str, parts: Sequence[Part], *, root: str = "") -> Part:
    """Put parts together; `root` is the type of the first one, which RFC 2387 wants for related."""
    # `=_` cannot occur in base64 or quoted-printable; the rest cannot be guessed.
    boundary = f"=_{secrets.token_hex(16)}"
    type_parameter = f' type="{root}";' if root else ""
    delimiter = f"--{boundary}\r\n".encode()
    pieces: list[bytes] = []
    for part in parts:
        pieces += (delimiter, _head(part.headers), *part.pieces, b"\r\n")
    pieces.append(f"--{boundary}--\r\n".encode())
    content_type = f'multipart/{subtype};{type_parameter}\r\n boundary="{boundary}"'
    return Part([("Content-Type", content_type)], tuple(pieces))
