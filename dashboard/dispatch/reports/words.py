"""What a provider's report says to a person: contradictions, and the event as it came. Pure."""

import json
import re

from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.states import Channel, State
from dashboard.dispatch.story.wording import mask
from dashboard.providers.base import Event

RAW_SHOWN = 16_000
HIDDEN = "[hidden]"
# What proves to somebody that a request is real, or where a person reads: nobody needs it here.
_SECRET_NAME = re.compile(
    r"signature|token|secret|password|authori[sz]ation|api_?key|signing_?cert|"
    r"unsubscribe_?url|client_?info|geo|latitude|longitude|city|(^|_|-)ip(_|-|$)",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[^\s\"'<>,;:()\\]+@[^\s\"'<>,;:()\\]+\.[A-Za-z]{2,}")
_NUMBER = re.compile(r"\+[1-9]\d{6,14}\b")


def raw_lines(report: StoredReport, *, reveals: bool) -> tuple[str, ...]:
    """Return the event as it came, without secrets; addresses masked unless `reveals`."""
    if not report.raw:
        return ()
    text = json.dumps(_without_secrets(report.raw), indent=2, ensure_ascii=False, sort_keys=True)
    if not reveals:
        text = _masked(text)
    return tuple(text[:RAW_SHOWN].splitlines())


def said(text: str, *, reveals: bool) -> str:
    """Return what a provider wrote, its addresses and numbers masked unless `reveals`."""
    return text if reveals else _masked(text)


def _masked(text: str) -> str:
    for pattern in (_ADDRESS, _NUMBER):
        text = pattern.sub(lambda found: mask(found[0]), text)
    return text


def _without_secrets(value: object, name: str = "") -> object:
    if name and _SECRET_NAME.search(name):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _without_secrets(one, str(key)) for key, one in value.items()}
    if isinstance(value, list):
        return [_without_secrets(one) for one in value]
    return value


def contradiction(event: str, state: State, channel: Channel) -> str:
    """Return in words, after "it", what a report says against what is known of its dispatch."""
    if event == Event.DELIVERED:
        return _DELIVERED_ALTHOUGH.get(state, "was reported delivered against what is known")
    if event == Event.FAILED and state is State.SUCCEEDED:
        return "was reported failed although it was delivered"
    if event == Event.FAILED and state is State.CANCELLED:
        return "was reported failed after it was cancelled"
    word = "text message" if channel is Channel.SMS else "email"
    return (
        f"was reported “{event.replace('_', ' ')}”, which contradicts what is known of the {word}"
    )


_DELIVERED_ALTHOUGH = {
    State.CANCELLED: "was delivered although it was cancelled",
    State.ERRORED: "was reported delivered although the same attempt was reported failed",
    State.QUEUED: "was reported delivered although it was never handed over",
    State.STALLED: "was reported delivered although it was never handed over",
    State.DELAYED: "was reported delivered although it was never handed over",
}
