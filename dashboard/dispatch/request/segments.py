"""How many SMS segments a text takes, and in which alphabet. Pure.

GSM-7: 160 septets, or 153 each when there are several; the extension characters take two septets.
UCS-2: 70 UTF-16 units, or 67 each. A character of two septets or units is never cut in two, so that
a segment can end one short.
"""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION = frozenset("^{}\\[~]|€\f")
_BEYOND_ONE_UNIT = 0xFFFF


@dataclass(frozen=True, slots=True)
class Segments:
    """How a text goes out.

    Attributes:
        count: how many segments it is billed as; 1 for an empty text.
        alphabet: `GSM-7` or `UCS-2`.
    """

    count: int
    alphabet: str


def composed(text: str) -> str:
    """Return a text in its composed form (NFC), which takes the fewest segments."""
    return unicodedata.normalize("NFC", text)


def count_segments(text: str) -> Segments:
    """Return how many segments a text takes, as it is (see `composed`)."""
    if all(character in _BASIC or character in _EXTENSION for character in text):
        sizes = [2 if character in _EXTENSION else 1 for character in text]
        return Segments(_fill(sizes, single=160, several=153), "GSM-7")
    sizes = [2 if ord(character) > _BEYOND_ONE_UNIT else 1 for character in text]
    return Segments(_fill(sizes, single=70, several=67), "UCS-2")


def _fill(sizes: Iterable[int], *, single: int, several: int) -> int:
    """Return how many segments characters of these sizes fill."""
    sizes = list(sizes)
    if sum(sizes) <= single:
        return 1
    count, used = 1, 0
    for size in sizes:
        if used + size > several:
            count, used = count + 1, 0
        used += size
    return count
