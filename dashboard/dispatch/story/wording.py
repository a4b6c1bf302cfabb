"""Small pieces of wording that pages, history and tickets share. Pure."""

from datetime import timedelta

NBSP = "\u00a0"
ROUTE_NAMES = {"smtp": "the mail server", "sandbox": "the sandbox", "null": "the null route"}


def duration(span: timedelta) -> str:
    """Return a length of time as a person says it: 4 s, 12 min, 3 h, 2 days."""
    seconds = max(int(span.total_seconds()), 0)
    if seconds < 60:
        return f"{seconds}{NBSP}s"
    if seconds < 5400:
        return f"{seconds // 60}{NBSP}min"
    if seconds < 172800:
        return f"{seconds // 3600}{NBSP}h"
    return f"{seconds // 86400}{NBSP}days"


def precise_duration(span: timedelta) -> str:
    """Return a length of time with two units: 4 min 58 s."""
    seconds = max(int(span.total_seconds()), 0)
    if seconds < 60:
        return f"{seconds}{NBSP}s"
    if seconds < 3600:
        minutes, rest = divmod(seconds, 60)
        return f"{minutes}{NBSP}min" + (f" {rest}{NBSP}s" if rest and minutes < 15 else "")
    hours, rest = divmod(seconds, 3600)
    if hours < 48:
        return f"{hours}{NBSP}h" + (f" {rest // 60}{NBSP}min" if rest >= 60 else "")
    return duration(span)


def count_of(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: 1 worker, 212 workers."""
    return f"{number:,}{NBSP}{one if number == 1 else many or one + 's'}"


def route_name(route: str) -> str:
    """Return a route as a sentence names it in its middle: the mail server, Postmark."""
    if not route:
        return "the provider"
    return ROUTE_NAMES.get(route) or route.rpartition(":")[2].capitalize()


def sentence_case(words: str) -> str:
    """Return words with a capital first letter, the rest as it is."""
    return words[:1].upper() + words[1:]


def full_stop(text: str) -> str:
    """Return a text that ends like a sentence."""
    return text if not text or text[-1] in ".!?…”" else f"{text}."


def mask(recipient: str) -> str:
    """Return a recipient of which only enough is left to tell two apart: a•••@example.com."""
    if "@" in recipient:
        local, _, domain = recipient.rpartition("@")
        return f"{local[:1]}•••@{domain}"
    return f"{recipient[:3]}•••{recipient[-2:]}" if len(recipient) > 6 else "•••"


def actor_name(actor: str) -> str:
    """Return an actor as a person reads it: without the word that says what kind it is."""
    return actor.partition(":")[2] or actor


def clipped(text: str, limit: int) -> str:
    """Return text on one line, of at most `limit` characters, with a sign where it was cut."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"
