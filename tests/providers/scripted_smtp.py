"""A mail server that does at each stage what a test tells it: answer, hang up, hang, or drip."""

import contextlib
import socket
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dashboard.clock import now


class Do(Enum):
    """What a server can do instead of answering."""

    CLOSE = auto()
    RESET = auto()
    HANG = auto()
    DRIP = auto()


Step = str | Do
Script = Mapping[str, Step | Sequence[Step]]

_DEFAULTS: dict[str, Step] = {
    "greeting": "220 scripted.example ESMTP",
    "helo": "250 scripted.example",
    "starttls": "220 go ahead",
    "auth": "235 2.7.0 welcome",
    "mail": "250 2.1.0 sender ok",
    "rcpt": "250 2.1.5 recipient ok",
    "data": "354 go on",
    "dot": "250 2.0.0 queued as 4711",
    "noop": "250 2.0.0 here",
    "rset": "250 2.0.0 forgotten",
    "quit": "221 2.0.0 bye",
}


@dataclass
class Scripted:
    """The running server and what it saw."""

    port: int = 0
    script: dict[str, list[Step]] = field(default_factory=dict)
    features: tuple[str, ...] = ("SIZE 20000000",)
    context: ssl.SSLContext | None = None
    implicit_tls: bool = False
    connections: int = 0
    commands: list[str] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def url(self, query: str = "starttls=never", user: str = "", scheme: str = "smtp") -> str:
        """The SMTP_URL of this server."""
        return f"{scheme}://{user}localhost:{self.port}?{query}"

    def step(self, stage: str) -> Step:
        """The next thing to do at `stage`; the last one is repeated."""
        with self.lock:
            steps = self.script.get(stage)
            if not steps:
                return _DEFAULTS[stage]
            return steps.pop(0) if len(steps) > 1 else steps[0]

    def count(self, verb: str) -> int:
        """How often a command came."""
        return sum(command.upper().startswith(verb) for command in self.commands)


class _Gone(Exception):
    """This conversation is over."""


class _Conversation:
    def __init__(self, server: Scripted, sock: socket.socket) -> None:
        self.server = server
        self.sock = sock
        self.buffer = b""
        self.encrypted = server.implicit_tls

    def do(self, step: Step) -> str:
        if isinstance(step, str):
            self.sock.sendall(step.encode() + b"\r\n")
            return step
        if step is Do.HANG:
            self.server.stop.wait(20)
        elif step is Do.DRIP:
            for octet in b"250-" + b"x" * 400:
                self.sock.sendall(bytes([octet]))
                if self.server.stop.wait(0.05):
                    break
        elif step is Do.RESET:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise _Gone

    def read_until(self, end: bytes) -> bytes:
        while end not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                raise _Gone
            self.buffer += data
        found, _, self.buffer = self.buffer.partition(end)
        return found

    def run(self) -> None:
        self.do(self.server.step("greeting"))
        while True:
            line = self.read_until(b"\r\n").decode("utf-8", "replace")
            with self.server.lock:
                self.server.commands.append(line)
            self.answer(line.split()[0].lower() if line.strip() else "noop", line)

    def answer(self, verb: str, line: str) -> None:
        if verb == "ehlo":
            self.ehlo()
        elif verb == "starttls":
            self.starttls()
        elif verb == "auth":
            self.auth(line)
        elif verb == "data":
            self.data()
        else:
            self.do(self.server.step(verb))
            if verb == "quit":
                raise _Gone

    def ehlo(self) -> None:
        if "ehlo" in self.server.script:
            self.do(self.server.step("ehlo"))
            return
        lines = ["scripted.example", *self.server.features]
        if self.encrypted:
            lines = [line for line in lines if line != "STARTTLS"]
        answers = [f"250-{line}" for line in lines[:-1]] + [f"250 {lines[-1]}"]
        self.do("\r\n".join(answers))

    def starttls(self) -> None:
        if self.do(self.server.step("starttls")).startswith("220"):
            assert self.server.context is not None
            self.sock = self.server.context.wrap_socket(self.sock, server_side=True)
            self.encrypted = True

    def auth(self, line: str) -> None:
        if line.upper().startswith("AUTH LOGIN") and len(line.split()) == 2:
            self.do("334 VXNlcm5hbWU6")
            self.read_until(b"\r\n")
            self.do("334 UGFzc3dvcmQ6")
            self.read_until(b"\r\n")
        elif line.upper().startswith("AUTH LOGIN"):
            self.do("334 UGFzc3dvcmQ6")
            self.read_until(b"\r\n")
        self.do(self.server.step("auth"))

    def data(self) -> None:
        if not self.do(self.server.step("data")).startswith("354"):
            return
        if "body" in self.server.script:
            self.sock.recv(1000)
            self.do(self.server.step("body"))
        message = self.read_until(b"\r\n.\r\n") + b"\r\n"
        message = message.replace(b"\r\n..", b"\r\n.")
        with self.server.lock:
            self.server.messages.append(message)
        self.do(self.server.step("dot"))


@contextlib.contextmanager
def scripted(script: Script | None = None, **options: object) -> Iterator[Scripted]:
    """Run a server for the length of a test."""
    steps = {
        stage: [step] if isinstance(step, (str, Do)) else list(step)
        for stage, step in (script or {}).items()
    }
    server = Scripted(script=steps, **options)  # type: ignore[arg-type]
    listener = socket.create_server(("127.0.0.1", 0))
    server.port = listener.getsockname()[1]
    threads = [threading.Thread(target=_accept, args=(server, listener))]
    threads[0].start()
    try:
        yield server
    finally:
        server.stop.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        threads[0].join(5)


def _accept(server: Scripted, listener: socket.socket) -> None:
    threads = []
    while not server.stop.is_set():
        try:
            sock, _ = listener.accept()
        except OSError:
            break
        with server.lock:
            server.connections += 1
        thread = threading.Thread(target=_converse, args=(server, sock), daemon=True)
        thread.start()
        threads.append(thread)


def _converse(server: Scripted, sock: socket.socket) -> None:
    conversation = _Conversation(server, sock)
    try:
        if server.implicit_tls:
            assert server.context is not None
            conversation.sock = server.context.wrap_socket(sock, server_side=True)
        conversation.run()
    except (_Gone, OSError):
        pass
    finally:
        conversation.sock.close()


def self_signed(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """Make a certificate for localhost; return its file and a server context that uses it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() - timedelta(hours=1))
        .not_valid_after(now() + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = folder / "certificate.pem"
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path = folder / "key.pem"
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path, key_path)
    return path, context
