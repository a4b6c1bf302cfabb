"""What error codes of providers mean and what to do, as data.

A code that is not here falls to a generic row and is listed on `/reports` as one without advice.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from dashboard.providers.base import OutcomeKind

_LINK = "https://www.twilio.com/docs/api/errors/{}"


@dataclass(frozen=True, slots=True)
class Advice:
    """What a code means.

    Attributes:
        kind: what it is when it answers a send.
        meaning: one sentence for the operator.
        advice: what to do about it.
        about_recipient: whether it is this recipient's trouble and not the route's.
        suppress: whether further messages to the recipient are pointless.
        wait_seconds: not earlier than this, where that is known.
    """

    code: str
    kind: OutcomeKind
    meaning: str
    advice: str
    about_recipient: bool = False
    suppress: bool = False
    wait_seconds: float | None = None

    @property
    def link(self) -> str:
        """The provider's page about the code."""
        return _LINK.format(self.code)


_P, _C, _T, _U = (
    OutcomeKind.PERMANENT,
    OutcomeKind.CONFIG,
    OutcomeKind.TRANSIENT,
    OutcomeKind.UNKNOWN,
)
_DAY = 24 * 3600.0


def _recipient(code: str, meaning: str, advice: str, *, suppress: bool = False) -> Advice:
    return Advice(code, _P, meaning, advice, about_recipient=True, suppress=suppress)


_ALL = (
    _recipient("21211", "The number is not a valid phone number.", "Correct the number, resend."),
    _recipient("21612", "This sender cannot reach this number.", "Use another sender."),
    _recipient("21614", "The number is no mobile number.", "Ask for a mobile number."),
    _recipient(
        "21610",
        "The recipient replied STOP.",
        "Nothing can be sent until they reply START.",
        suppress=True,
    ),
    Advice("21602", _P, "The message has no body.", "Send one with a text."),
    Advice("21605", _P, "The body is too long.", "Shorten it to 1,600 characters."),
    Advice("21617", _P, "The body is over 1,600 characters.", "Shorten it."),
    _recipient("30003", "The handset could not be reached.", "Try again hours later, once."),
    _recipient("30004", "The message was blocked.", "Ask the recipient; do not repeat it."),
    _recipient("30005", "The number is unknown or not in use.", "Ask for another number."),
    _recipient(
        "30006",
        "A landline, or a carrier that cannot be reached.",
        "Ask for a mobile number.",
        suppress=True,
    ),
    _recipient("30007", "The carrier filtered the message.", "Change the text; do not repeat it."),
    _recipient("30008", "The carrier gave no reason.", "Try again once."),
    _recipient("30036", "It was not delivered within its validity.", "Send a new one if wanted."),
    Advice("20003", _C, "The credentials were refused.", "Check account SID and auth token."),
    Advice("20005", _C, "The account is not active.", "Look at the account's status."),
    Advice("20404", _C, "The account or sender was not found.", "Check SID and sender."),
    Advice("21212", _C, "The sender is not valid.", "Check TWILIO_FROM."),
    Advice("21408", _C, "This country is not enabled.", "Enable it in the geo permissions."),
    Advice("21606", _C, "The sender cannot send SMS.", "Check TWILIO_FROM."),
    Advice("21659", _C, "The sender is not of this account.", "Check TWILIO_FROM."),
    Advice("30002", _C, "The account is suspended.", "Look at the account's status."),
    Advice("30032", _C, "The toll-free number is not verified.", "Verify it with the provider."),
    Advice("30034", _C, "The number is not registered for A2P 10DLC.", "Register it."),
    Advice("20429", _T, "Too many requests.", "It is sent again by itself."),
    Advice("429", _T, "Too many requests.", "It is sent again by itself."),
    Advice(
        "21611", _T, "The sender's queue is full.", "It is sent again by itself.", wait_seconds=300
    ),
    Advice("30001", _T, "The queue overflowed.", "It is sent again by itself.", wait_seconds=300),
    Advice("63017", _T, "The channel's rate was exceeded.", "It is sent again by itself."),
    Advice(
        "63038",
        _T,
        "The daily limit of the account is used up.",
        "It is sent again when the next day begins.",
        wait_seconds=_DAY,
    ),
    Advice("20500", _U, "The provider had an inner error.", "It may have been sent."),
)
TWILIO: Mapping[str, Advice] = MappingProxyType({one.code: one for one in _ALL})


def advice_for(code: str) -> Advice | None:
    """Return what is known about a code, or None where there is no advice yet."""
    return TWILIO.get(code)
