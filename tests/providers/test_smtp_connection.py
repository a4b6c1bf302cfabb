"""Connections: reused, asked first, replaced in time, encrypted or not at all, one per thread."""

import socket
import ssl
import threading
from pathlib import Path

import pytest

from dashboard.providers.base import OutcomeKind, Sms
from dashboard.providers.mime import render
from dashboard.providers.smtp import SmtpProvider
from dashboard.providers.smtp_pool import Pool
from dashboard.providers.smtp_url import Security, Server, SmtpUrlInvalid, parse_smtp_url
from dashboard.providers.smtp_wire import Budget, Phase, Refused, Wire
from tests.providers.factories import email, key
from tests.providers.scripted_smtp import Do, Scripted, scripted, self_signed

ACCEPTED = OutcomeKind.ACCEPTED


def _provider(server: Scripted, query: str = "starttls=never", **options: float) -> SmtpProvider:
    return SmtpProvider(
        server.url(query),
        operation_seconds=2,
        deadline_seconds=4,
        **options,  # type: ignore[arg-type]
    )


def test_one_connection_serves_many_messages_and_is_asked_before_each() -> None:
    with scripted() as server:
        provider = _provider(server)
        outcomes = [provider.send(email(), key()) for _ in range(20)]
        provider.close()
    assert {outcome.kind for outcome in outcomes} == {ACCEPTED}
    assert (server.connections, server.count("NOOP"), server.count("QUIT")) == (1, 19, 1)
    assert len(server.messages) == 20


def test_a_connection_is_replaced_after_its_number_of_messages() -> None:
    with scripted() as server:
        provider = _provider(server, most_deliveries=4)
        for _ in range(10):
            provider.send(email(), key())
        provider.close()
    assert server.connections == 3


def test_a_connection_is_replaced_when_it_is_old() -> None:
    with scripted() as server:
        provider = _provider(server, longest_seconds=0)
        for _ in range(3):
            assert provider.send(email(), key()).kind is ACCEPTED
    assert server.connections == 3


@pytest.mark.parametrize("answer", [Do.CLOSE, Do.RESET, "421 4.4.2 idle for too long"])
def test_an_idle_connection_that_died_costs_no_message(answer: Do | str) -> None:
    with scripted({"noop": answer}) as server:
        provider = _provider(server)
        kinds = [provider.send(email(), key()).kind for _ in range(3)]
        provider.close()
    assert kinds == [ACCEPTED] * 3
    assert server.connections == 3
    assert len(server.messages) == 3


def test_a_refusal_is_forgotten_on_the_same_connection() -> None:
    with scripted({"rcpt": ["550 5.1.1 unknown", "250 ok"]}) as server:
        provider = _provider(server)
        assert provider.send(email(), key()).kind is OutcomeKind.PERMANENT
        assert provider.send(email(), key()).kind is ACCEPTED
        provider.close()
    assert (server.connections, server.count("RSET")) == (1, 1)


def test_a_421_ends_the_connection() -> None:
    with scripted({"mail": ["421 4.7.0 slow down", "250 ok"]}) as server:
        provider = _provider(server)
        provider.send(email(), key())
        assert provider.send(email(), key()).kind is ACCEPTED
        provider.close()
    assert server.connections == 2


def test_many_threads_share_one_provider() -> None:
    kinds: list[OutcomeKind] = []
    with scripted() as server:
        provider = _provider(server)

        def work() -> None:
            kinds.extend(provider.send(email(), key()).kind for _ in range(15))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        provider.close()
    assert kinds == [ACCEPTED] * 120
    assert len(server.messages) == 120
    assert server.connections <= 12


def test_the_id_is_the_message_id_and_the_words_are_the_servers() -> None:
    with scripted() as server:
        provider = _provider(server)
        outcome = provider.send(email(message_id="<one@wireroom.example>"), key())
        provider.close()
    assert outcome.provider_message_id == "one@wireroom.example"
    assert outcome.detail == "250 2.0.0 queued as 4711"
    assert not outcome.report_expected


def test_the_envelope_has_one_recipient_an_ascii_domain_and_the_size() -> None:
    with scripted() as server:
        provider = _provider(server)
        provider.send(
            email(recipient="ada@bücher.example", to=("ada@bücher.example", "bo@x.example")), key()
        )
        provider.close()
    assert [line for line in server.commands if line.upper().startswith("RCPT")] == [
        "rcpt TO:<ada@xn--bcher-kva.example>"
    ]
    mail = next(line for line in server.commands if line.upper().startswith("MAIL"))
    assert f"SIZE={len(server.messages[0])}" in mail


def test_dots_at_line_starts_arrive_as_they_were() -> None:
    with scripted() as server:
        provider = _provider(server)
        provider.send(email(text=".\n..\n.a\n"), key())
        provider.close()
    assert server.messages[0].endswith(b"\r\n\r\n.\r\n..\r\n.a\r\n")


def test_some_refused_recipients_do_not_cost_the_others_theirs() -> None:
    rendered = render(email())
    with scripted({"rcpt": ["250 ok", "550 5.1.1 unknown"]}) as server:
        pool = Pool(parse_smtp_url(server.url()))
        budget = Budget.of(2, 4)
        with pool.connection(budget) as connection:
            delivery = connection.deliver(budget, ["a@x.example", "b@x.example"], rendered)
        pool.close()
    assert {name: reply.code for name, reply in delivery.refused.items()} == {"b@x.example": 550}
    assert len(server.messages) == 1


def test_a_421_at_the_second_recipient_is_for_both() -> None:
    rendered = render(email())
    with scripted({"rcpt": ["250 ok", "421 4.3.0 down"]}) as server:
        pool = Pool(parse_smtp_url(server.url()))
        budget = Budget.of(2, 4)
        with pytest.raises(Refused) as caught, pool.connection(budget) as connection:
            connection.deliver(budget, ["a@x.example", "b@x.example"], rendered)
        pool.close()
    assert caught.value.reply.code == 421
    assert server.messages == []


def test_an_end_of_message_that_could_not_leave_raises_no_doubt() -> None:
    ours, theirs = socket.socketpair()
    wire = Wire(parse_smtp_url("smtp://localhost"), Budget.of(2, 4), ssl.create_default_context())
    wire.sock = ours
    theirs.close()
    with pytest.raises(BrokenPipeError):
        wire._send_end(b".\r\n")
    assert wire.phase is Phase.DATA_BODY
    wire.close()


def test_starttls_protects_everything_and_knows_the_certificate(tmp_path: Path) -> None:
    path, context = self_signed(tmp_path)
    with scripted(features=("STARTTLS", "AUTH PLAIN"), context=context) as server:
        provider = SmtpProvider(server.url(f"starttls=required&ca={path}", "me:pass%2Fword@"))
        outcome = provider.send(email(), key())
        provider.close()
    assert outcome.kind is ACCEPTED, outcome
    verbs = [line.split()[0].upper() for line in server.commands]
    assert verbs[:5] == ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL"]


def test_tls_from_the_first_octet(tmp_path: Path) -> None:
    path, context = self_signed(tmp_path)
    with scripted(context=context, implicit_tls=True) as server:
        provider = SmtpProvider(server.url(f"ca={path}", scheme="smtps"))
        outcome = provider.send(email(text="x\n" * 200_000), key())
        provider.close()
    assert outcome.kind is ACCEPTED, outcome
    assert len(server.messages[0]) > 400_000


@pytest.mark.parametrize("query", ["starttls=required", "starttls=offered"])
def test_an_unknown_certificate_sends_nothing_at_all(tmp_path: Path, query: str) -> None:
    _, context = self_signed(tmp_path)
    with scripted(features=("STARTTLS",), context=context) as server:
        provider = _provider(server, query)
        outcome = provider.send(email(), key())
    assert outcome.kind is OutcomeKind.CONFIG
    assert "certificate" in outcome.detail
    assert server.count("MAIL") == 0


def test_a_password_never_goes_out_unencrypted_when_starttls_was_asked_for() -> None:
    with scripted(features=("AUTH PLAIN",)) as server:
        provider = SmtpProvider(server.url("starttls=offered", "me:secret@"))
        outcome = provider.send(email(), key())
    assert outcome.kind is OutcomeKind.CONFIG
    assert server.count("AUTH") == 0


@pytest.mark.parametrize(
    ("feature", "first"), [("AUTH LOGIN", "AUTH LOGIN"), ("AUTH PLAIN LOGIN", "AUTH PLAIN")]
)
def test_signing_in_uses_one_mechanism(feature: str, first: str) -> None:
    with scripted(features=(feature,)) as server:
        provider = SmtpProvider(server.url(user="me:secret@"))
        assert provider.send(email(), key()).kind is ACCEPTED
        provider.close()
    assert server.count("AUTH") == server.count(first) == 1


def test_a_password_that_cannot_be_said_is_config() -> None:
    with scripted(features=("AUTH PLAIN",)) as server:
        provider = SmtpProvider(server.url(user="me:p%C3%A4ss@"))
        assert provider.send(email(), key()).kind is OutcomeKind.CONFIG


def test_a_probe_signs_in_and_sends_nothing() -> None:
    with scripted(features=("AUTH PLAIN",)) as server:
        assert SmtpProvider(server.url(user="me:secret@")).probe().kind is ACCEPTED
    verbs = [line.split()[0].upper() for line in server.commands]
    assert verbs == ["EHLO", "AUTH", "NOOP", "QUIT"]


def test_a_probe_says_what_is_wrong() -> None:
    with scripted({"auth": "535 5.7.8 wrong"}, features=("AUTH PLAIN",)) as server:
        outcome = SmtpProvider(server.url(user="me:secret@")).probe()
    assert (outcome.kind, outcome.code) == (OutcomeKind.CONFIG, "535 5.7.8")


def test_an_sms_is_refused_without_a_connection() -> None:
    provider = SmtpProvider("smtp://127.0.0.1:9")
    assert provider.send(Sms("+12025550143", "hi"), key()).kind is OutcomeKind.PERMANENT


def test_a_line_break_in_a_header_is_a_permanent_outcome() -> None:
    with scripted() as server:
        outcome = _provider(server).send(email(subject="a\r\nBcc: eve@x.example"), key())
    assert outcome.kind is OutcomeKind.PERMANENT
    assert "Subject" in outcome.detail
    assert server.connections == 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp://localhost:2525", Server("localhost", 2525, Security.NEVER)),
        ("smtp://relay.example", Server("relay.example", 25, Security.OFFERED)),
        ("smtp://relay.example:587", Server("relay.example", 587, Security.REQUIRED)),
        ("smtp://u:p%40@m.example:25", Server("m.example", 25, Security.REQUIRED, "u", "p@")),
        (
            "smtps://m.example?helo=me.example",
            Server("m.example", 465, Security.TLS, helo="me.example"),
        ),
        ("smtp://[::1]:25", Server("::1", 25, Security.NEVER)),
    ],
)
def test_urls_are_understood(url: str, expected: Server) -> None:
    assert parse_smtp_url(url) == expected
    assert "p@" not in repr(parse_smtp_url(url))


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://secret.example",
        "smtp://",
        "smtp://secret:99999",
        "smtp://h?starttls=maybe",
        "smtp://h?secret=1x",
        "smtp://h/secret",
    ],
)
def test_other_urls_are_refused_with_a_sentence(url: str) -> None:
    with pytest.raises(SmtpUrlInvalid, match="SMTP_URL"):
        parse_smtp_url(url)
