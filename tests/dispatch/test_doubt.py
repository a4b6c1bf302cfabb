"""The policy for outcomes that nobody knows, as a table in the order of the design."""

from datetime import timedelta

import pytest

from dashboard.dispatch.doubt import NOTES, Doubt, Policy, Remedy, remedy
from dashboard.providers.base import Capabilities

NOTHING = Capabilities()
KEY = Capabilities(takes_idempotency_key=True, idempotency_seconds=3600)
LOOK_UP = Capabilities(can_look_up=True)
BOTH = Capabilities(takes_idempotency_key=True, idempotency_seconds=3600, can_look_up=True)


@pytest.mark.parametrize(
    ("capabilities", "policy", "age_seconds", "has_secrets", "expected"),
    [
        (KEY, Policy.HOLD, 0, False, Remedy.SAME_KEY),
        (BOTH, Policy.HOLD, 3599, False, Remedy.SAME_KEY),
        (BOTH, Policy.RESEND, 3600, False, Remedy.LOOK_UP),
        (BOTH, Policy.RESEND, 0, True, Remedy.LOOK_UP),
        (LOOK_UP, Policy.RESEND, 0, False, Remedy.LOOK_UP),
        (LOOK_UP, Policy.HOLD, 0, True, Remedy.LOOK_UP),
        (KEY, Policy.RESEND, 3600, False, Remedy.RESEND),
        (KEY, Policy.HOLD, 0, True, Remedy.HOLD),
        (NOTHING, Policy.RESEND, 0, False, Remedy.RESEND),
        (NOTHING, Policy.HOLD, 0, False, Remedy.HOLD),
    ],
)
def test_the_remedy(capabilities, policy, age_seconds, has_secrets, expected) -> None:
    age = timedelta(seconds=age_seconds)
    assert remedy(Doubt(capabilities, policy, age, has_secrets)) is expected


def test_every_remedy_is_explained_on_the_timeline() -> None:
    assert set(NOTES) == set(Remedy)
