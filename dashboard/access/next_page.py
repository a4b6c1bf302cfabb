"""Where to go after signing in: a page of this site, or home. Pure."""

import re
from urllib.parse import unquote

HOME = "/"
_LONGEST = 2000
# Spaces, control characters and backslashes: browsers drop or turn them, and what is left of
# "/\t/evil.example" leads away.
_TREACHEROUS = re.compile(r"[\x00-\x20\x7f-\xa0\\\u2028\u2029]")
_DOORS = re.compile(r"/(login|logout|setup|invitation)(?![^/?#])", re.IGNORECASE)


def safe_next(value: str) -> str:
    """Return a path of this site that is safe to redirect to: the given one, or home."""
    if not value.startswith("/") or len(value) > _LONGEST:
        return HOME
    for text in (value, unquote(value)):
        if text.startswith("//") or _TREACHEROUS.search(text):
            return HOME
    return HOME if _DOORS.match(unquote(value)) else value
