"""The SMS route `sandbox`: the real client against the stand-in, and the stand-in's server."""

import json
import os
import threading
from pathlib import Path

from typing_extensions import override

from dashboard.providers.base import Email, Key, Outcome, OutcomeKind, Sms
from dashboard.providers.sandbox_sms import account_of, address_file, read_port
from dashboard.providers.twilio import Account, TwilioProvider
from dashboard.providers.twilio_stand_in import StandIn, StandInServer

SENDER = "+12025550199"
PACE_SECONDS = 0.5
WEBHOOK_PATH = "/webhooks/twilio/status"


class SandboxSmsProvider(TwilioProvider):
    """Sends to the stand-in of this installation; nothing leaves the machine."""

    def __init__(self, data_dir: Path, *, secret_key: str, base_url: str) -> None:
        sid, token = account_of(secret_key)
        webhook = base_url.rstrip("/") + WEBHOOK_PATH if base_url else ""
        super().__init__(
            Account(account_sid=sid, auth_token=token, sender=SENDER, webhook_url=webhook),
            name="sandbox",
        )
        self._data_dir = data_dir

    @override
    def api_url(self) -> str:
        """Return where the stand-in listens now."""
        return f"http://127.0.0.1:{read_port(self._data_dir) or 0}"

    @override
    def send(self, message: Email | Sms, key: Key) -> Outcome:
        """Send, unless the stand-in does not run: then nothing left, and it is tried again."""
        if read_port(self._data_dir) is None:
            return Outcome(OutcomeKind.TRANSIENT, "The sandbox does not run.")
        return super().send(message, key)


def sms_stand_in(
    data_dir: Path, secret_key: str, *, pace_seconds: float = PACE_SECONDS
) -> StandInServer:
    """Start the stand-in in threads of this process and say where it listens.

    Stop it with `shutdown()`. It takes its old port if that is free.
    """
    stand_in = StandIn(data_dir, account_of(secret_key), pace_seconds=pace_seconds)
    try:
        server = StandInServer(stand_in, read_port(data_dir) or 0)
    except OSError:
        server = StandInServer(stand_in)
    path = address_file(data_dir)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"port": server.port, "pid": os.getpid()}))
    draft.replace(path)
    threading.Thread(target=server.serve_forever, name="stand-in", daemon=True).start()
    return server
