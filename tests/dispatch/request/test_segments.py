"""How many segments a text message takes: the cases that segment counters got wrong."""

import pytest

from dashboard.dispatch.request.segments import composed, count_segments


@pytest.mark.parametrize(
    ("text", "count", "alphabet"),
    [
        ("", 1, "GSM-7"),
        ("a" * 160, 1, "GSM-7"),
        ("a" * 161, 2, "GSM-7"),
        ("a" * 306, 2, "GSM-7"),
        ("a" * 307, 3, "GSM-7"),
        ("^" * 80, 1, "GSM-7"),
        ("^" * 81, 2, "GSM-7"),
        ("€\f{}[]~|\\", 1, "GSM-7"),
        ("я" * 70, 1, "UCS-2"),
        ("я" * 71, 2, "UCS-2"),
        ("я" * 134, 2, "UCS-2"),
        ("я" * 135, 3, "UCS-2"),
        ("😎" * 35, 1, "UCS-2"),
        ("😎" * 36, 2, "UCS-2"),
        ("]" * 85 + "😘", 2, "UCS-2"),
        ("\u2019" + "a" * 99, 2, "UCS-2"),
        ("ê", 1, "UCS-2"),
    ],
)
def test_segments_of(text: str, count: int, alphabet: str) -> None:
    counted = count_segments(text)

    assert (counted.count, counted.alphabet) == (count, alphabet)


def test_an_extension_character_is_not_cut_in_two() -> None:
    # 152 letters and a two-septet character: it moves to the second segment as a whole.
    assert count_segments("a" * 152 + "€" + "a" * 151).count == 2
    assert count_segments("a" * 152 + "€" + "a" * 152).count == 3


def test_a_pair_of_units_is_not_cut_in_two() -> None:
    assert count_segments("я" * 66 + "😎" + "я" * 65).count == 2
    assert count_segments("я" * 66 + "😎" + "я" * 66).count == 3


def test_the_composed_form_takes_fewer_segments() -> None:
    apart = "e\u0301" * 70

    assert count_segments(apart).count == 3
    assert count_segments(composed(apart)).count == 1
