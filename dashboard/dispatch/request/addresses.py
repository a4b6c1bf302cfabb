"""Email addresses and phone numbers: checked, and in the forms they are stored, sent and found in.

Pure, and no DNS: a request must not wait for a name server, which would also be wrong about
addresses that a relay of ours knows.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

import idna
from email_validator import EmailNotValidError, validate_email

ADDRESS_OCTETS = 254  # RFC 5321 4.5.3.1.3, less the brackets
NAME_OCTETS = 300
_NAMED = re.compile(r"^(?P<name>[^<>]*)<(?P<address>[^<>]*)>$")
_SPECIAL = re.compile(r'[()\[\]:;@\\,."]')
_E164 = re.compile(r"\+[1-9][0-9]{6,14}")
_NUMBER_SENDER = re.compile(r"\+[1-9][0-9]{6,14}|[0-9]{3,8}|MG[0-9a-f]{32}")
_WORD_SENDER = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9 &+_-]{1,11}")


class AddressRefused(ValueError):
    """It is no address that can be sent to; the message says why and how to mend it."""


@dataclass(frozen=True, slots=True)
class Address:
    """One email address, with its display name apart.

    Attributes:
        name: the display name, without quotes; empty if there is none.
        address: as it was given.
        normalised: the form to compare and search by: lower case, domain in punycode.
    """

    name: str
    address: str
    normalised: str

    @property
    def ascii_domain(self) -> str:
        """The domain in punycode."""
        return self.normalised.rpartition("@")[2]

    def header(self) -> str:
        """The address as one element of a stored To, Cc or From: `Name <address>`."""
        if not self.name:
            return self.address
        if not _SPECIAL.search(self.name):
            return f"{self.name} <{self.address}>"
        escaped = self.name.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}" <{self.address}>'


def parse_address(value: str, *, named: bool = False, smtputf8: bool = False) -> Address:
    """Check one email address.

    Args:
        value: an address; with `named` also `Display Name <address>`.
        named: whether a display name may stand before it.
        smtputf8: whether the route carries a local part that is not ASCII.

    Raises:
        AddressRefused: it is not exactly one address, or cannot be sent to.
    """
    value = value.strip()
    found = _NAMED.match(value) if named else None
    name, address = (found["name"].strip(), found["address"].strip()) if found else ("", value)
    name = _unquoted(name)
    if len(name.encode("utf-8", "replace")) > NAME_OCTETS:
        raise AddressRefused(f"The display name is longer than {NAME_OCTETS} octets; shorten it.")
    return Address(name, address, _check(address, smtputf8=smtputf8))


def _check(address: str, *, smtputf8: bool) -> str:
    """Return the normalised form of an address, or raise AddressRefused."""
    octets = len(address.encode("utf-8", "replace"))
    if octets > ADDRESS_OCTETS:
        raise AddressRefused(
            f"It has {octets} octets; an email address has at most {ADDRESS_OCTETS}."
        )
    if "<" in address or "," in address or ";" in address:
        raise AddressRefused("Give exactly one address, and nothing around it.")
    local_part = address.rpartition("@")[0]
    if not local_part.isascii() and not smtputf8:
        raise AddressRefused(
            "The part before the @ has characters outside ASCII, which this route cannot carry."
            " Ask the recipient for another address; the part after the @ may be international."
        )
    try:
        checked = validate_email(
            address,
            check_deliverability=False,
            strict=True,
            allow_smtputf8=smtputf8,
            test_environment=True,  # .test is where installations try themselves out
        )
    except EmailNotValidError as error:
        raise AddressRefused(f"It is not an email address that mail can go to: {error}") from None
    normalised = f"{checked.local_part}@{checked.ascii_domain}".lower()
    if len(normalised.encode()) > ADDRESS_OCTETS:
        raise AddressRefused(f"With its domain in ASCII it has over {ADDRESS_OCTETS} octets.")
    return normalised


def _unquoted(name: str) -> str:
    if len(name) >= 2 and name[0] == name[-1] == '"':
        return re.sub(r"\\(.)", r"\1", name[1:-1])
    return name


def parse_number(value: str) -> str:
    """Return a phone number in E.164 form.

    Raises:
        AddressRefused: it is anything else, such as a national number.
    """
    if not _E164.fullmatch(value):
        raise AddressRefused(
            "Give the number in E.164 form: +, country code and number, 7 to 15 digits, nothing"
            " between them, for example +12025550143."
        )
    return value


def parse_sms_sender(value: str) -> str:
    """Return an SMS sender: a number, a short code, a messaging service or a word.

    Raises:
        AddressRefused: it is none of these.
    """
    if not (_NUMBER_SENDER.fullmatch(value) or _WORD_SENDER.fullmatch(value)):
        raise AddressRefused(
            "Give a number in E.164 form, a short code, a messaging service (MG…) or a name of at"
            " most 11 letters and digits."
        )
    return value


def ascii_address(address: str) -> str:
    """Return an address with its domain in punycode; the local part stays as it is."""
    local_part, _, domain = address.rpartition("@")
    return address if domain.isascii() else f"{local_part}@{_ascii_domain(domain)}"


@lru_cache(maxsize=4096)
def _ascii_domain(domain: str) -> str:
    return idna.encode(domain, uts46=True).decode("ascii")


def search_forms(address: str, normalised: str) -> str:
    """Return both spellings of an address in lower case, once where they are the same."""
    given = address.lower()
    return given if given == normalised else f"{given} {normalised}"
