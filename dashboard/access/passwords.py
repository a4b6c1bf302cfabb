"""Passwords: hashing with argon2id, checking in constant time, and which ones are refused.

Knows no user and no table.
"""

import base64
import re
import secrets
import threading
import unicodedata
from functools import lru_cache

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

SHORTEST = 12
LONGEST = 1024

# Argon2-cffi's defaults are RFC 9106's: 64 MiB and three passes, above what OWASP asks for.
_HASHER = PasswordHasher()
# A hash needs 64 MiB. Two at once use every core that counts; more would only use memory.
_AT_ONCE = threading.BoundedSemaphore(2)

_WORDS = re.compile(
    "(password|passwort|passphrase|letmein|welcome|iloveyou|changeme|administrator|admin|secret"
    "|login|default|wireroom|dragon|monkey|football|baseball|sunshine|princess|master|my|the)+"
)
_LEET = str.maketrans("013457@$!", "oieastasi")
_ROWS = ("abcdefghijklmnopqrstuvwxyz", "qwertyuiopasdfghjklzxcvbnm", "1234567890", "0123456789")
_LONGEST_UNIT = 4
_FEWEST_CHARACTERS = 5


class PasswordRefused(ValueError):
    """A new password is not good enough; the message says why and what to do."""


def hash_password(password: str) -> str:
    """Return what to store for a password. Takes some 50 ms."""
    with _AT_ONCE:
        return _HASHER.hash(_normalised(password))


def matches(stored: str, password: str) -> bool:
    """Return whether a password is the stored one.

    Without a stored hash (nobody of that name, or single sign-on only) it takes as long, and the
    answer is no. What cannot be a password is answered at once, whoever asks.
    """
    if not is_possible(password):
        return False
    with _AT_ONCE:
        try:
            _HASHER.verify(stored or _nobodys(), _normalised(password))
        except (VerificationError, InvalidHashError):
            return False
    return bool(stored)


def is_possible(password: str) -> bool:
    """Return whether this text can be anybody's password at all."""
    return 0 < len(password) <= LONGEST and "\0" not in password


def is_outdated(stored: str) -> bool:
    """Return whether a hash was made with weaker parameters than today's."""
    return _HASHER.check_needs_rehash(stored)


def check_new(password: str, email: str = "") -> None:
    """Check a password that somebody chose.

    Raises:
        PasswordRefused: with the reason, in a sentence for its owner.
    """
    if "\0" in password:
        raise PasswordRefused("A password cannot hold a NUL character.")
    if len(password) < SHORTEST:
        raise PasswordRefused(f"Use {SHORTEST} characters or more; a few words do well.")
    if len(password) > LONGEST:
        raise PasswordRefused(f"Use {LONGEST} characters or less.")
    if _is_common(password.lower(), email.lower().partition("@")[0]):
        raise PasswordRefused("This password is easily guessed. A few unrelated words do well.")


def _is_common(password: str, name: str) -> bool:
    """Return whether it is a known word with decoration, a repetition, a row of keys or a name."""
    if len(set(password)) < _FEWEST_CHARACTERS or _repeats(password):
        return True
    if any(password in 3 * row or password[::-1] in 3 * row for row in _ROWS):
        return True
    letters = {_letters(password), _letters(password.translate(_LEET))}
    stems = {re.sub(r"[\W\d_]+$", "", password).translate(_LEET), *letters}
    return any(
        not stem or stem == _letters(name) or _WORDS.fullmatch(stem) or stem in _ROWS[1]
        for stem in stems
    )


def _letters(text: str) -> str:
    return re.sub(r"[\W\d_]+", "", text)


def _repeats(text: str) -> bool:
    unit = (text + text).find(text, 1)
    return unit <= _LONGEST_UNIT and unit < len(text)


def _normalised(password: str) -> str:
    # Keyboards disagree on how to type the same accent (NIST SP 800-63B, 5.1.1.2).
    return unicodedata.normalize("NFKC", password)


@lru_cache(maxsize=1)
def _nobodys() -> str:
    """Return a hash that no password has and that takes as long to check as a real one."""
    salt, digest = (_encoded(secrets.token_bytes(size)) for size in (16, 32))
    costs = f"m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    return f"$argon2id$v=19${costs}${salt}${digest}"


def _encoded(octets: bytes) -> str:
    return base64.b64encode(octets).decode().rstrip("=")
