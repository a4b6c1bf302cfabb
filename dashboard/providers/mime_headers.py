"""Header values and addresses as they go on the wire: folded, and without a way to smuggle a line.

The standard library's own folding is not used for these: it puts long URLs and ids into encoded
words (a List-Unsubscribe link then stops working), and its results differ between Python versions.
"""

import base64
import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import quote

import idna

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LINE_LENGTH = 76
_LINE_LIMIT = 998  # RFC 5322 2.1.1; servers refuse or cut longer ones
_WORD_BYTES = 45  # 60 characters of base64, 72 with the frame: an encoded word may have 75
_PARAMETER_LENGTH = 60
_NAMED = re.compile(r"^(?P<name>[^<>]*?)\s*<(?P<address>[^<>]+)>$")
_LOCAL_PART = re.compile(r"^[^\s@<>()\[\]\\,;:\"]+$")
_DOMAIN_LITERAL = re.compile(r"^\[(\d{1,3}(\.\d{1,3}){3}|IPv6:[0-9A-Fa-f:.]+)\]$")
_ATOMS = re.compile(r"^[A-Za-z0-9 !#$%&'*+/=?^_`{|}~-]+$")


class Unsendable(ValueError):
    """A message cannot be written as an email; the text names the field, never its value."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """One address, taken apart; `domain` is ASCII already."""

    name: str
    local_part: str
    domain: str

    @property
    def address(self) -> str:
        """The address as SMTP commands and headers carry it."""
        return f"{self.local_part}@{self.domain}"

    @property
    def needs_smtputf8(self) -> bool:
        """Whether only a server with SMTPUTF8 can carry this address."""
        return not self.local_part.isascii()

    def header(self) -> str:
        """The address as one element of an address header, not folded."""
        if not self.name:
            return self.address
        return f"{_phrase(self.name)} <{self.address}>"


def one_line(field: str, value: str) -> str:
    """Return `value`, or refuse it because it could start a second header line.

    Raises:
        Unsendable: there is a line break or another control character in it.
    """
    if _CONTROL.search(value):
        raise Unsendable(f"The {field} has a line break or another control character.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise Unsendable(f"The {field} has a character that is not valid Unicode.") from None
    return value


def parse_mailbox(field: str, value: str) -> Mailbox:
    """Take apart `address` or `Display Name <address>`.

    Raises:
        Unsendable: it is not exactly one address that can stand in a header.
    """
    value = one_line(field, value).strip()
    named = _NAMED.match(value)
    name, address = (named["name"], named["address"]) if named else ("", value)
    local_part, _, domain = address.strip().rpartition("@")
    if not _LOCAL_PART.match(local_part):
        raise Unsendable(f"The {field} is not one email address.")
    ascii_domain = _ascii_domain(domain)
    if ascii_domain is None:
        raise Unsendable(f"The {field} has a domain that cannot be written in ASCII.")
    return Mailbox(_unquoted(name), local_part, ascii_domain)


@lru_cache(maxsize=4096)  # encoding takes longer than the rest of a header together
def _ascii_domain(domain: str) -> str | None:
    if _DOMAIN_LITERAL.match(domain):
        return domain
    try:
        return idna.encode(domain, uts46=True).decode("ascii")
    except (idna.IDNAError, UnicodeError):
        pass
    # Host names with an underscore and the like are no IDNA, yet they occur in private networks.
    return domain if re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", domain) else None


def _unquoted(name: str) -> str:
    name = name.strip()
    if len(name) >= 2 and name[0] == name[-1] == '"':
        return re.sub(r"\\(.)", r"\1", name[1:-1])
    return name


def _phrase(name: str) -> str:
    if not _is_plain(name):
        return encoded_words(name)
    if _ATOMS.match(name):
        return name
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _is_plain(text: str) -> bool:
    """Whether readers get `text` back unchanged when it is written as it is."""
    return text.isascii() and "=?" not in text and "  " not in text and text == text.strip()


def encoded_words(text: str) -> str:
    """Return `text` as RFC 2047 words, each of them valid by itself, separated by single spaces."""
    words = []
    chunk = b""
    for character in text:
        octets = character.encode("utf-8")
        if len(chunk) + len(octets) > _WORD_BYTES:
            words.append(chunk)
            chunk = b""
        chunk += octets
    words.append(chunk)
    return " ".join(f"=?utf-8?b?{base64.b64encode(word).decode('ascii')}?=" for word in words)


def unstructured(field: str, value: str) -> str:
    """Return free text (a subject, an additional header) ready for the wire.

    Raises:
        Unsendable: a control character, or a word too long for a header line.
    """
    value = one_line(field, value)
    return fold(field, value if _is_plain(value) else encoded_words(value))


def address_list(field: str, mailboxes: tuple[Mailbox, ...]) -> str:
    """Return an address header's value ready for the wire."""
    return fold(field, ", ".join(mailbox.header() for mailbox in mailboxes))


def identifier(field: str, value: str) -> str:
    """Return a Message-ID or Content-ID with its brackets; it is never folded nor encoded.

    Raises:
        Unsendable: it has characters that an id cannot have, or is too long for one line.
    """
    bare = value.strip().removeprefix("<").removesuffix(">")
    if not re.fullmatch(r"[!-;=?-~]{1,900}", bare):
        raise Unsendable(f"The {field} is not a valid identifier.")
    return f"<{bare}>"


def fold(field: str, value: str) -> str:
    """Break `value` at its spaces, so that unfolding gives exactly `value` again.

    Raises:
        Unsendable: a piece without a space is longer than a line may be.
    """
    lines = []
    line = f"{field}:"
    for word in value.split(" "):
        if len(line) + 1 + len(word) > _LINE_LENGTH and line.strip() not in ("", f"{field}:"):
            lines.append(line)
            line = ""
        line = f"{line} {word}"
    lines.append(line)
    if max(map(len, lines)) > _LINE_LIMIT:
        raise Unsendable(f"The {field} has a word of more than {_LINE_LIMIT} characters.")
    return "\r\n".join(lines).removeprefix(f"{field}: ")


def disposition(kind: str, filename: str) -> str:
    """Return a Content-Disposition value; a name that is not plain ASCII goes by RFC 2231.

    Raises:
        Unsendable: the name has a control character.
    """
    filename = one_line("file name", filename)
    if not filename:
        return kind
    is_short = _is_plain(filename) and len(filename) <= _PARAMETER_LENGTH
    if is_short and not re.search(r'["\\%]', filename):
        return f'{kind};\r\n filename="{filename}"'
    return ";\r\n ".join([kind, *_extended("filename", filename)])


def _extended(parameter: str, value: str) -> list[str]:
    """Return RFC 2231 pieces; only the first names the charset, and no escape is cut in two."""
    pieces = [""]
    for character in value:
        escaped = quote(character, safe="")
        if len(pieces[-1]) + len(escaped) > _PARAMETER_LENGTH:
            pieces.append("")
        pieces[-1] += escaped
    if len(pieces) == 1:
        return [f"{parameter}*=utf-8''{pieces[0]}"]
    charset = "utf-8''"
    return [
        f"{parameter}*{number}*={charset if number == 0 else ''}{piece}"
        for number, piece in enumerate(pieces)
    ]
