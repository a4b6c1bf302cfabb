"""Passwords: which are refused, what is stored, and that unknown users cost the same."""

import time

import pytest
from argon2 import PasswordHasher, extract_parameters

from dashboard.access.passwords import (
    PasswordRefused,
    check_new,
    hash_password,
    is_outdated,
    matches,
)


def test_hashes_are_at_least_what_owasp_asks_for() -> None:
    parameters = extract_parameters(hash_password("a few unrelated words"))

    assert parameters.type.name == "ID"
    assert parameters.memory_cost >= 19 * 1024
    assert parameters.time_cost >= 2


def test_a_password_matches_its_hash_and_no_other() -> None:
    stored = hash_password("a few unrelated words")

    assert matches(stored, "a few unrelated words")
    assert not matches(stored, "a few unrelated word")
    assert not matches("", "a few unrelated words")
    assert not matches("not a hash", "a few unrelated words")


def test_an_accent_may_be_typed_in_two_ways() -> None:
    assert matches(hash_password("cafe\u0301 latte words"), "caf\u00e9 latte words")


def test_a_hash_with_weaker_parameters_is_outdated() -> None:
    assert is_outdated(PasswordHasher(memory_cost=8 * 1024).hash("a few unrelated words"))
    assert not is_outdated(hash_password("a few unrelated words"))


def test_nobody_costs_as_much_as_somebody() -> None:
    stored = hash_password("a few unrelated words")
    matches("", "warm up")

    def fastest(hashed: str) -> float:
        taken = []
        for _ in range(5):
            started = time.perf_counter()
            matches(hashed, "some wrong password")
            taken.append(time.perf_counter() - started)
        return min(taken)

    assert 0.5 < fastest("") / fastest(stored) < 2


@pytest.mark.parametrize("password", ["\0", "a" * 1_000_000, "", "words with \0 in it"])
def test_what_cannot_be_a_password_is_answered_at_once(password: str) -> None:
    stored = hash_password("a few unrelated words")
    started = time.perf_counter()

    assert not matches(stored, password)
    assert time.perf_counter() - started < 0.02


@pytest.mark.parametrize(
    "password",
    [
        "short",
        "elevenchars",
        "x" * 1025,
        "with a \0 inside it",
        "aaaaaaaaaaaaaa",
        "abcabcabcabcabc",
        "123456789012",
        "qwertyuiopasdf",
        "zyxwvutsrqponm",
        "Password1234!",
        "P@ssw0rd123456",
        "passwordpassword",
        "welcomeadmin2027",
        "letmein!!!!2027",
        "1234-5678-9876",
        "ada.lovelace1815",
    ],
)
def test_a_weak_password_is_refused_with_a_sentence(password: str) -> None:
    with pytest.raises(PasswordRefused) as refused:
        check_new(password, "ada.lovelace@example.com")
    assert str(refused.value).endswith(".")


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery",
        "tractor lamp seven",
        "zu9Aif1gohth",
        "пароль из слов",
        "my password is a tractor",
    ],
)
def test_a_few_words_will_do(password: str) -> None:
    check_new(password, "ada@example.com")
