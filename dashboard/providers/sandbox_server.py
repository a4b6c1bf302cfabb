"""The sandbox's mail server: takes every message over real SMTP and keeps it on this machine.

Runs as a process of its own under the supervisor, listens on loopback only, writes where it
listens to `DATA_DIR/sandbox/address.json`, and stops on SIGTERM. What the simulator's recipients
do is here; what of it is expected of the outcome is in `sandbox`.
"""

import asyncio
import hashlib
import json
import logging
import os
import signal
import socket
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from aiosmtpd.smtp import SMTP, Envelope, Session

from dashboard.clock import now
from dashboard.logs import configure
from dashboard.providers.base import Event
from dashboard.providers.sandbox import (
    CAPTURED_AS,
    TRACKING_HEADER,
    Simulated,
    address_file,
    read_address,
    simulated,
)
from dashboard.providers.sandbox_poster import ReportPoster
from dashboard.providers.sandbox_reports import SandboxEvent, report_secret
from dashboard.providers.sandbox_sms_route import sms_stand_in
from dashboard.providers.sandbox_store import capture, prune
from dashboard.settings import Settings, current, read_servers_file

logger = logging.getLogger("wireroom.sandbox")

_HOST = "127.0.0.1"
_MESSAGE_BYTES = 64 * 1024 * 1024
_SLOW_SECONDS = 5.0
_REPORT_SECONDS = 1.0
_MOST_DEFERRED = 10_000
_PRUNE_EVERY = 1_000


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the simulator takes; tests make it short."""

    slow_seconds: float = _SLOW_SECONDS
    report_seconds: float = _REPORT_SECONDS


class SandboxHandler:
    """What aiosmtpd asks about each command; method names are its."""

    def __init__(self, data_dir: Path, poster: ReportPoster, pace: Pace) -> None:
        self._data_dir = data_dir
        self._poster = poster
        self._pace = pace
        self._deferred: OrderedDict[bytes, None] = OrderedDict()
        self._since_prune = 0
        self._pruning: asyncio.Task[int] | None = None

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd calls
        self,
        server: SMTP,  # noqa: ARG002
        session: Session,  # noqa: ARG002
        envelope: Envelope,
        address: str,
        rcpt_options: list[str],  # noqa: ARG002
    ) -> str:
        """Take every recipient but the one that is there to be refused."""
        if simulated(address) is Simulated.REFUSED:
            return "550 5.1.1 The simulator refuses this recipient: user unknown"
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def handle_DATA(  # noqa: N802 - the name that aiosmtpd calls
        self,
        server: SMTP,
        session: Session,  # noqa: ARG002
        envelope: Envelope,
    ) -> str:
        """Keep the message, then do what its recipients simulate."""
        content = bytes(envelope.original_content or b"")
        acts = {simulated(recipient) for recipient in envelope.rcpt_tos}
        if Simulated.DEFERRED in acts and self._is_first_time(envelope, content):
            return "451 4.7.1 Greylisted by the simulator, please try again in 5 minutes"
        try:
            message_id = capture(
                self._data_dir,
                mail_from=envelope.mail_from or "",
                rcpt_to=[str(recipient) for recipient in envelope.rcpt_tos],
                content=content,
            )
        except OSError as error:
            logger.warning("sandbox message not kept", extra={"reason": error.strerror})
            return "452 4.3.1 The sandbox could not write the message"
        self._want_reports(envelope, content, message_id)
        self._prune_sometimes()
        if Simulated.SLOW in acts:
            await asyncio.sleep(self._pace.slow_seconds)
        if Simulated.DROP_AFTER_ACCEPT in acts and server.transport is not None:
            server.transport.close()
        return f"250 2.0.0 OK {CAPTURED_AS}{message_id}"

    def _is_first_time(self, envelope: Envelope, content: bytes) -> bool:
        """Remember each message once, so that its second attempt passes."""
        who = f"{envelope.mail_from} {sorted(envelope.rcpt_tos)} {_header(content, 'Message-ID')}"
        mark = hashlib.sha256(who.encode("utf-8", "replace")).digest()
        if mark in self._deferred:
            return False
        self._deferred[mark] = None
        if len(self._deferred) > _MOST_DEFERRED:
            self._deferred.popitem(last=False)
        return True

    def _want_reports(self, envelope: Envelope, content: bytes, message_id: str) -> None:
        for recipient in envelope.rcpt_tos:
            act = simulated(recipient)
            if act not in (Simulated.DELIVERED, Simulated.BOUNCED):
                continue
            bounced = act is Simulated.BOUNCED
            event = SandboxEvent(
                event=Event.FAILED if bounced else Event.DELIVERED,
                message_id=message_id,
                recipient=recipient,
                occurred_at=now(),
                key=_header(content, TRACKING_HEADER),
                reason="The simulator bounced it: user unknown" if bounced else "",
                code="550 5.1.1" if bounced else "",
                permanent=bounced,
            )
            self._poster.add(event, delay_seconds=self._pace.report_seconds)

    def _prune_sometimes(self) -> None:
        self._since_prune += 1
        is_idle = self._pruning is None or self._pruning.done()
        if self._since_prune >= _PRUNE_EVERY and is_idle:
            self._since_prune = 0
            self._pruning = asyncio.create_task(asyncio.to_thread(prune, self._data_dir))


def _header(content: bytes, name: str) -> str:
    """Return a header that we wrote ourselves, on one line, without parsing the message."""
    head = b"\r\n" + content.partition(b"\r\n\r\n")[0] + b"\r\n"
    _, found, rest = head.partition(f"\r\n{name}: ".encode())
    return rest.partition(b"\r\n")[0].decode("utf-8", "replace") if found else ""


def bind(data_dir: Path) -> socket.socket:
    """Return a listening socket, on the port of last time if that is free.

    The workers would follow to another port, but a message that is on its way now would not.
    """
    last = read_address(data_dir)
    for port in (last.port if last else 0, 0):
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((_HOST, port))
            sock.listen(512)
        except OSError:
            sock.close()
            continue
        return sock
    raise OSError("no free port on 127.0.0.1")


def write_address(data_dir: Path, port: int) -> None:
    """Say where the sink listens; readers see the old or the new file, never half of one."""
    path = address_file(data_dir)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(json.dumps({"host": _HOST, "port": port, "pid": os.getpid()}))
    draft.replace(path)


async def serve(data_dir: Path, poster: ReportPoster, stop: asyncio.Event, pace: Pace) -> None:
    """Take messages until `stop` is set."""
    address_file(data_dir).parent.mkdir(parents=True, exist_ok=True)
    handler = SandboxHandler(data_dir, poster, pace)
    loop = asyncio.get_running_loop()

    def protocol() -> SMTP:
        return SMTP(
            handler,
            data_size_limit=_MESSAGE_BYTES,
            enable_SMTPUTF8=True,
            hostname="sandbox.localhost",
            ident="Wireroom sandbox",
            loop=loop,
        )

    sock = bind(data_dir)
    port = sock.getsockname()[1]
    server = await loop.create_server(protocol, sock=sock)
    try:
        write_address(data_dir, port)
        logger.info("sandbox ready", extra={"port": port})
        await asyncio.to_thread(prune, data_dir)
        await stop.wait()
    finally:
        # Not `async with`: since Python 3.12 that waits for clients that keep a connection idle.
        server.close()


def main() -> None:
    """Run the sandbox of this installation until SIGTERM or SIGINT."""
    logging.getLogger("mail.log").setLevel(logging.ERROR)  # aiosmtpd names every command at info
    settings = current()
    configure(settings)
    poster = ReportPoster(
        lambda: _base_url(settings), report_secret(settings.secret_key.get_secret_value())
    )
    stand_in = sms_stand_in(settings.data_dir, settings.secret_key.get_secret_value())
    try:
        asyncio.run(_until_signal(settings.data_dir, poster))
    finally:
        stand_in.shutdown()
        poster.stop()


async def _until_signal(data_dir: Path, poster: ReportPoster) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(data_dir, poster, stop, Pace())


def _base_url(settings: Settings) -> str:
    return settings.public_base_url or read_servers_file(settings.data_dir).get(
        "public_base_url", ""
    )


if __name__ == "__main__":
    main()
