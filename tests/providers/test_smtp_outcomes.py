"""Every row of the SMTP table: what the server does, and what we make of it.

Real sockets, and a real dispatch that each outcome is recorded on: its state, next try and text.
"""

import socket
from dataclasses import dataclass, field

import pytest
from sqlalchemy.orm import Session, scoped_session

from dashboard.clock import monotonic
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.outcomes import Judge, Result, record
from dashboard.dispatch.states import Failure, Hold, State
from dashboard.providers.base import Outcome, OutcomeKind
from dashboard.providers.smtp import SmtpProvider
from dashboard.settings import Settings
from tests.factories import make_attempt, make_dispatch
from tests.providers.factories import email, key
from tests.providers.scripted_smtp import Do, Script, scripted

TRANSIENT, PERMANENT = OutcomeKind.TRANSIENT, OutcomeKind.PERMANENT
CONFIG, UNKNOWN, ACCEPTED = OutcomeKind.CONFIG, OutcomeKind.UNKNOWN, OutcomeKind.ACCEPTED


@dataclass(frozen=True)
class Row:
    """One row: a script, and the outcome it must lead to."""

    name: str
    script: Script
    kind: OutcomeKind
    code: str = ""
    words: str = ""
    retry_after: float | None = None
    about_recipient: bool = False
    suppress: bool = False
    query: str = "starttls=never"
    user: str = ""
    features: tuple[str, ...] = ("SIZE 20000000",)
    size: int = 100
    fields: dict[str, object] = field(default_factory=dict)


AUTH = {"user": "me:s3cret-word@", "features": ("AUTH PLAIN LOGIN",)}
GREY = "450 4.2.0 Greylisted, see http://postgrey.example"
PARKED = {"about_recipient": True, "retry_after": 300.0}
GONE = {"about_recipient": True, "suppress": True}
ROWS = [
    Row("greeting hangs", {"greeting": Do.HANG}, TRANSIENT, words="greeting"),
    Row("greeting closes", {"greeting": Do.CLOSE}, TRANSIENT, words="greeting"),
    Row("greeting 421", {"greeting": "421 4.3.2 busy"}, TRANSIENT, "421 4.3.2", "busy"),
    Row("greeting 554", {"greeting": "554 5.7.1 blocked"}, CONFIG, "554 5.7.1", "blocked"),
    Row("greeting is not SMTP", {"greeting": "HTTP/1.1 400 Bad"}, CONFIG, words="not SMTP"),
    Row("ehlo 421", {"ehlo": "421 later"}, TRANSIENT, "421"),
    Row("ehlo unknown, helo works", {"ehlo": "502 what"}, ACCEPTED, "250 2.0.0"),
    Row("starttls not offered", {}, CONFIG, words="STARTTLS", query="starttls=required"),
    Row(
        "starttls 454",
        {"starttls": "454 4.7.0 TLS not available"},
        TRANSIENT,
        "454 4.7.0",
        query="starttls=required",
        features=("STARTTLS",),
    ),
    Row(
        "starttls 501 although only if offered",
        {"starttls": "501 no"},
        CONFIG,
        "501",
        query="starttls=offered",
        features=("STARTTLS",),
    ),
    Row("auth 535", {"auth": "535 5.7.8 wrong"}, CONFIG, "535 5.7.8", **AUTH),
    Row(
        "auth 535, then closed",
        {"auth": ["535 5.7.8 wrong", Do.CLOSE]},
        CONFIG,
        "535 5.7.8",
        **AUTH,
    ),
    Row("auth 534", {"auth": "534 5.7.9 app password"}, CONFIG, "534 5.7.9", **AUTH),
    Row("auth 538", {"auth": "538 5.7.11 encrypt"}, CONFIG, "538 5.7.11", **AUTH),
    Row("auth 454", {"auth": "454 4.7.0 later"}, TRANSIENT, "454 4.7.0", **AUTH),
    Row("auth 421", {"auth": "421 4.7.0 too many"}, TRANSIENT, "421 4.7.0", **AUTH),
    Row("auth lost", {"auth": Do.CLOSE}, TRANSIENT, words="auth", **AUTH),
    Row("auth not offered", {}, CONFIG, words="sign-in", user="me:s3cret-word@"),
    Row(
        "auth echoes the password",
        {"auth": "535 no s3cret-word"},
        CONFIG,
        words="withheld",
        **AUTH,
        code="535",
    ),
    Row("mail 451", {"mail": "451 4.3.0 later"}, TRANSIENT, "451 4.3.0"),
    Row("mail 421", {"mail": "421 4.3.0 later"}, TRANSIENT, "421 4.3.0"),
    Row("mail lost", {"mail": Do.CLOSE}, TRANSIENT, words="mail"),
    Row("mail 530", {"mail": "530 5.7.0 Must issue a STARTTLS"}, CONFIG, "530 5.7.0"),
    Row("mail 550 5.7.1", {"mail": "550 5.7.1 sender denied"}, CONFIG, "550 5.7.1"),
    Row("mail 553 5.1.8", {"mail": "553 5.1.8 no such domain"}, PERMANENT, "553 5.1.8"),
    Row("mail 552 5.3.4", {"mail": "552 5.3.4 too big"}, PERMANENT, "552 5.3.4"),
    Row("size over the limit", {}, PERMANENT, words="octets", features=("SIZE 1000",), size=3000),
    Row("rcpt 450 greylisted", {"rcpt": GREY}, TRANSIENT, "450 4.2.0", "Greylisted", **PARKED),
    Row("rcpt 451", {"rcpt": "451 4.7.1 try later"}, TRANSIENT, "451 4.7.1", **PARKED),
    Row(
        "rcpt 451 for ten minutes",
        {"rcpt": "451 4.7.1 Greylisted, try again in 10 minutes"},
        TRANSIENT,
        "451 4.7.1",
        retry_after=600.0,
        about_recipient=True,
    ),
    Row("rcpt 452", {"rcpt": "452 4.2.2 full"}, TRANSIENT, "452 4.2.2", about_recipient=True),
    Row("rcpt 421", {"rcpt": "421 4.7.0 slow down"}, TRANSIENT, "421 4.7.0"),
    Row("rcpt lost", {"rcpt": Do.RESET}, TRANSIENT, words="rcpt"),
    Row("rcpt 550 5.1.1", {"rcpt": "550 5.1.1 User unknown"}, PERMANENT, "550 5.1.1", **GONE),
    Row("rcpt 550 bare", {"rcpt": "550 No such user here"}, PERMANENT, "550", **GONE),
    Row(
        "rcpt 550 policy",
        {"rcpt": "550 5.2.1 disabled"},
        PERMANENT,
        "550 5.2.1",
        about_recipient=True,
    ),
    Row("rcpt relaying", {"rcpt": "550 5.7.1 Relaying denied"}, CONFIG, "550 5.7.1"),
    Row("rcpt relay, bare", {"rcpt": "554 Relay access denied"}, CONFIG, "554"),
    Row(
        "rcpt 554 5.7.1 of one mailbox",
        {"rcpt": "554 5.7.1 Recipient address rejected: Access denied"},
        PERMANENT,
        "554 5.7.1",
        about_recipient=True,
    ),
    Row(
        "rcpt 553 sender not ours",
        {"rcpt": "553 5.7.1 Sender address rejected: not owned by user me"},
        CONFIG,
        "553 5.7.1",
    ),
    Row(
        "rcpt 552 5.2.2",
        {"rcpt": "552 5.2.2 Mailbox full"},
        TRANSIENT,
        "552 5.2.2",
        about_recipient=True,
    ),
    Row("data 451", {"data": "451 4.3.0 not now"}, TRANSIENT, "451 4.3.0"),
    Row("data 554", {"data": "554 5.5.1 no valid recipients"}, PERMANENT, "554 5.5.1"),
    Row("data lost", {"data": Do.CLOSE}, TRANSIENT, words="data_command"),
    Row("body lost", {"body": Do.RESET}, TRANSIENT, words="data_body", size=6_000_000),
    Row("closed after the dot", {"dot": Do.CLOSE}, UNKNOWN, words="whole message"),
    Row("reset after the dot", {"dot": Do.RESET}, UNKNOWN, words="whole message"),
    Row("hangs after the dot", {"dot": Do.HANG}, UNKNOWN, words="timed out"),
    Row("drips after the dot", {"dot": Do.DRIP}, UNKNOWN, words="timed out"),
    Row("nonsense after the dot", {"dot": "what?"}, UNKNOWN, words="not SMTP"),
    Row("dot 451", {"dot": "451 4.3.0 disk"}, TRANSIENT, "451 4.3.0"),
    Row("dot 421", {"dot": "421 4.3.0 going down"}, TRANSIENT, "421 4.3.0"),
    Row("dot greylisted", {"dot": "451 4.7.1 Greylisted"}, TRANSIENT, "451 4.7.1", **PARKED),
    Row("dot 554", {"dot": "554 5.6.0 spam"}, PERMANENT, "554 5.6.0"),
    Row("dot 5.7.26", {"dot": "550 5.7.26 DMARC"}, PERMANENT, "550 5.7.26"),
    Row("dot 550 5.1.1", {"dot": "550 5.1.1 gone"}, PERMANENT, "550 5.1.1", **GONE),
    Row("quit closes", {"quit": Do.CLOSE}, ACCEPTED, "250 2.0.0", "queued as 4711"),
    Row("quit hangs", {"quit": Do.HANG}, ACCEPTED, "250 2.0.0", "queued as 4711"),
    Row("drips before the message", {"mail": Do.DRIP}, TRANSIENT, words="timed out"),
    Row(
        "umlaut before the @",
        {},
        PERMANENT,
        words="SMTPUTF8",
        fields={"recipient": "jürgen@example.com", "to": ("jürgen@example.com",)},
    ),
    Row(
        "umlaut before the @, taken",
        {},
        ACCEPTED,
        "250 2.0.0",
        features=("SMTPUTF8",),
        fields={"recipient": "jürgen@example.com", "to": ("jürgen@example.com",)},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_of_the_table_leads_to_its_outcome(
    row: Row, session: scoped_session[Session], settings: Settings
) -> None:
    with scripted(row.script, features=row.features) as server:
        provider = SmtpProvider(
            server.url(row.query, row.user),
            operation_seconds=0.3,
            deadline_seconds=0.6,
            most_deliveries=1,
        )
        started_at = monotonic()
        outcome = provider.send(email(text="x" * 70 + "\n" + "y" * row.size, **row.fields), key())
        took_seconds = monotonic() - started_at
        provider.close()
    assert took_seconds < (3 if "quit" in row.script else 1.5)
    assert outcome.kind is row.kind, outcome
    assert outcome.code == row.code
    assert row.words in outcome.detail
    assert outcome.retry_after_seconds == row.retry_after
    assert (outcome.about_recipient, outcome.suppress) == (row.about_recipient, row.suppress)
    assert "s3cret" not in repr(outcome)
    if row.kind in (TRANSIENT, CONFIG) and not row.code.startswith(("451", "421", "550")):
        assert server.messages == []
    _check_dispatch(_recorded(session, settings, outcome), row, outcome)


STATES = {
    ACCEPTED: (State.SENT, Failure.NONE, Hold.NONE, 0, False),
    TRANSIENT: (State.DELAYED, Failure.NONE, Hold.NONE, 1, False),
    PERMANENT: (State.ERRORED, Failure.REFUSED, Hold.NONE, 0, False),
    CONFIG: (State.DELAYED, Failure.NONE, Hold.ROUTE, 0, False),
    UNKNOWN: (State.DELAYED, Failure.NONE, Hold.NONE, 1, True),
}
"""State, failure, hold, tries used, whether it may have arrived."""


def _recorded(session: scoped_session[Session], settings: Settings, outcome: Outcome) -> Dispatch:
    dispatch = make_dispatch(session, state=State.SENDING)
    attempt = make_attempt(session, dispatch, evidence=int(Evidence.HANDED_OVER))
    result = Result(dispatch.id, attempt.id, attempt.number, attempt.route, outcome)
    record(session, [result], Judge(settings, "worker:w-1", SmtpProvider.capabilities))
    session.commit()
    return dispatch


def _check_dispatch(dispatch: Dispatch, row: Row, outcome: Outcome) -> None:
    known = (dispatch.state, dispatch.failure, dispatch.hold, dispatch.tries, dispatch.maybe_sent)
    assert known == STATES[row.kind]
    assert dispatch.error == ("" if row.kind is ACCEPTED else outcome.detail)
    if row.kind in (TRANSIENT, UNKNOWN):
        wait_seconds = (dispatch.due_at - dispatch.updated_at).total_seconds()
        first = row.retry_after or 16
        assert first * 0.8 <= wait_seconds <= first * 1.2
        assert wait_seconds >= (row.retry_after or 0), "never earlier than the server asks"


def _send(url: str) -> Outcome:
    provider = SmtpProvider(url, operation_seconds=0.5, deadline_seconds=1)
    try:
        return provider.send(email(), key())
    finally:
        provider.close()


def test_a_refused_connection_is_transient_and_not_about_the_recipient() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    outcome = _send(f"smtp://127.0.0.1:{port}")
    assert outcome.kind is TRANSIENT
    assert "refused" in outcome.detail
    assert not outcome.about_recipient


def test_an_unknown_host_is_transient_first_and_config_the_fifth_time() -> None:
    provider = SmtpProvider("smtp://no-such-host.invalid:25", operation_seconds=2)
    kinds = [provider.send(email(), key()).kind for _ in range(5)]
    assert kinds == [TRANSIENT] * 4 + [CONFIG]


def test_tls_on_a_plain_port_is_config() -> None:
    with scripted() as server:
        outcome = _send(f"smtps://localhost:{server.port}")
    assert outcome.kind is CONFIG
    assert "SMTP_URL" in outcome.detail
