"""Hand over an email by HTTP, safely repeatable, with nothing but the standard library.

    wireroom token add programme-site | python examples/over_http.py \
        http://127.0.0.1:8000 ada@example.com
"""

import json
import sys
import urllib.request
from collections.abc import Mapping
from typing import Any

TIMEOUT_SECONDS = 10


def send(address: str, token: str, message: Mapping[str, object], key: str) -> dict[str, Any]:
    """Post a message and return the answer.

    Args:
        address: of Wireroom, such as http://127.0.0.1:8000.
        key: the same for every attempt to hand over this message: it then goes out once, however
            often this is called. Best made from what the message is about.

    Raises:
        urllib.error.HTTPError: it was refused; its body says which field is wrong.
    """
    request = urllib.request.Request(  # noqa: S310  the address is the operator's own
        f"{address}/api/v1/dispatches",
        data=json.dumps(message).encode(),
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Idempotency-Key": key,
        },
    )
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
        found: dict[str, Any] = json.load(answer)
        return found


def invitation(to: str) -> dict[str, object]:
    """Return the message of this example."""
    return {
        "channel": "email",
        "to": to,
        "subject": "Your talk",
        "text": "Dear speaker,\n\nwe would like to hear your talk.\n",
        "target": {"type": "invitation", "id": "482"},
        "labels": {"conference": "pycon-2027"},
        "valid_for_seconds": 86_400,
    }


def main() -> None:
    """Send the invitation to the address of the command line."""
    address, to = sys.argv[1:]
    token = sys.stdin.readline().strip()
    answer = send(address, token, invitation(to), key=f"invitation-482-{to}")
    sys.stdout.write(f"{answer['id']} {answer['state']}\n")


if __name__ == "__main__":
    main()
