"""add_email and add_sms in a caller's own transaction, and accept() for the API."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rq import Queue as RQQueue
from sqlalchemy import Engine, event, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as current_settings
from dashboard.access.models import Source
from dashboard.database import db
from dashboard.dispatch.files.carried import files_of
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.intake import SourceUnknown, add_email, add_sms
from dashboard.dispatch.models import Dispatch, EmailContent, SmsContent, Transition
from dashboard.dispatch.request.accept import Answer, Ask, accept, accept_all
from dashboard.dispatch.request.requests import InvalidRequest, NewFile
from dashboard.dispatch.request.rows import Asker
from dashboard.dispatch.request.validation import parse_request
from dashboard.dispatch.states import Failure, State
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings
from tests.factories import make_source

EMAIL = {"channel": "email", "to": "ada@example.com", "subject": "Your talk", "text": "Hello"}


@pytest.fixture
def host(database: Engine, session: scoped_session[Session]) -> Iterator[Session]:
    """A host application's own plain session, with a source committed."""
    make_source(session())
    session.commit()
    with Session(database) as own:
        yield own


@pytest.fixture
def jobs(settings: Settings) -> Callable[..., list[str]]:
    """The dispatch ids that were published on a queue."""

    def published(queue: str = "default") -> list[str]:
        waiting = RQQueue(queue, connection=redis_connection(settings)).jobs
        return [one for job in waiting for one in job.args[0]]

    return published


def email(session: Session, **fields: object) -> Dispatch:
    values = {"to": "ada@example.com", "subject": "Your talk", "text": "Hello", **fields}
    return add_email(session=session, source="programme-site", **values)  # type: ignore[arg-type]


def count(session: Session) -> int:
    return len(session.scalars(select(Dispatch.id)).all())


def test_an_email_is_stored_whole_and_published_by_the_callers_commit(
    host: Session, jobs: Callable[..., list[str]]
) -> None:
    row = email(
        host,
        to="Ada.Lovelace@Bücher.example",
        from_="Programme <programme@example.com>",
        html="<p>Hello</p>",
        target={"type": "invitation", "id": "482"},
        labels={"conference": "pycon-2027"},
        headers={"X-Campaign": "spring"},
        priority="high",
    )
    assert row.state is State.QUEUED
    assert jobs("high") == []

    host.commit()

    assert jobs("high") == [str(row.id)]
    assert row.recipient == "Ada.Lovelace@Bücher.example"
    assert row.recipient_normalised == "ada.lovelace@xn--bcher-kva.example"
    assert "ada.lovelace@bücher.example" in row.search_text
    assert "ada.lovelace@xn--bcher-kva.example" in row.search_text
    assert "your talk" in row.search_text
    assert "482" in row.search_text
    assert row.published_at is not None
    assert row.labels == {"conference": "pycon-2027"}
    content = host.get_one(EmailContent, row.id)
    assert (content.subject, content.text, content.html) == ("Your talk", "Hello", "<p>Hello</p>")
    assert content.message_id == f"<{row.id}@example.com>"
    assert content.headers == {"X-Campaign": "spring"}
    history = host.scalars(select(Transition).where(Transition.dispatch_id == row.id)).one()
    assert (history.trigger, history.actor) == ("request", "source:programme-site")


def test_a_text_message_knows_its_segments(host: Session, jobs: Callable[..., list[str]]) -> None:
    row = add_sms(session=host, source="programme-site", to="+12025550143", body="я" * 71)
    host.commit()

    content = host.get_one(SmsContent, row.id)
    assert content.segments == 2
    assert row.recipient_normalised == "+12025550143"
    assert jobs() == [str(row.id)]


def test_a_roll_back_leaves_nothing_and_publishes_nothing(
    host: Session, jobs: Callable[..., list[str]]
) -> None:
    email(host)
    host.rollback()
    host.execute(text("SELECT 1"))
    host.commit()

    assert count(host) == 0
    assert jobs() == []


def test_closing_the_session_without_a_commit_publishes_nothing(
    database: Engine, host: Session, jobs: Callable[..., list[str]]
) -> None:
    with Session(database) as other:
        email(other)

    assert count(host) == 0
    assert jobs() == []


def test_a_savepoint_that_is_rolled_back_takes_along_only_its_own(
    host: Session, jobs: Callable[..., list[str]]
) -> None:
    before = email(host, subject="before")
    kept = host.begin_nested()
    inside = email(host, subject="inside")
    kept.commit()
    undone = host.begin_nested()
    email(host, subject="undone")
    inner = host.begin_nested()
    email(host, subject="undone with the outer one")
    inner.commit()
    undone.rollback()
    after = email(host, subject="after")
    assert jobs() == []

    host.commit()

    assert jobs() == [str(row.id) for row in (before, inside, after)]
    assert count(host) == 3


def test_a_failed_flush_in_a_savepoint_does_not_cost_the_others(
    host: Session, jobs: Callable[..., list[str]]
) -> None:
    kept = email(host)
    savepoint = host.begin_nested()
    email(host, subject="undone")
    host.add(Source(name="programme-site"))
    with pytest.raises(IntegrityError):
        host.flush()
    savepoint.rollback()
    host.commit()

    assert jobs() == [str(kept.id)]


def test_a_transaction_around_the_session_publishes_nothing_until_it_is_known(
    host: Session, database: Engine, jobs: Callable[..., list[str]]
) -> None:
    with database.connect() as connection:
        outer = connection.begin()
        with Session(connection, join_transaction_mode="create_savepoint") as inner:
            email(inner)
            inner.commit()
        outer.rollback()

    assert jobs() == []
    assert count(host) == 0


def test_several_adds_are_published_together_by_queue(
    host: Session, jobs: Callable[..., list[str]], settings: Settings
) -> None:
    normal = [email(host) for _ in range(3)]
    bulk = email(host, priority="bulk")
    host.commit()

    assert jobs() == [str(row.id) for row in normal]
    assert jobs("bulk") == [str(bulk.id)]
    assert RQQueue("default", connection=redis_connection(settings)).count == 1
    email(host)
    host.commit()
    assert len(jobs()) == 4


def test_at_the_moment_of_publishing_a_second_connection_sees_the_row(
    host: Session, database: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    original = RQQueue.enqueue_many

    def look(self: RQQueue, *args: object, **kwargs: object) -> object:
        with Session(database) as other:
            seen.append(count(other))
        return original(self, *args, **kwargs)

    monkeypatch.setattr(RQQueue, "enqueue_many", look)
    email(host)
    host.commit()

    assert seen == [1]


def test_a_dispatch_for_later_is_not_published(
    host: Session, jobs: Callable[..., list[str]]
) -> None:
    moment = datetime.now(UTC) + timedelta(hours=2)
    row = email(host, send_at=moment, valid_for_seconds=60)
    host.commit()

    assert jobs() == []
    assert row.published_at is None
    assert row.due_at == moment
    assert row.expires_at == moment + timedelta(seconds=60)


def test_a_time_that_has_passed_is_now(host: Session, jobs: Callable[..., list[str]]) -> None:
    row = email(host, send_at="2020-01-01T09:00:00+02:00")
    host.commit()

    assert row.due_at > datetime.now(UTC) - timedelta(minutes=1)
    assert jobs() == [str(row.id)]


def test_each_recipient_gets_a_dispatch_of_their_own(
    host: Session, jobs: Callable[..., list[str]]
) -> None:
    first = email(
        host,
        to=["ada@example.com", "bob@example.com"],
        cc=["carl@example.com"],
        bcc=["dora@example.com"],
    )
    host.commit()

    rows = host.scalars(select(Dispatch).order_by(Dispatch.id)).all()
    assert [row.recipient for row in rows] == [
        *("ada@example.com", "bob@example.com", "carl@example.com", "dora@example.com")
    ]
    assert [row.copy_of_id for row in rows] == [None, first.id, first.id, first.id]
    for content in host.scalars(select(EmailContent)):
        assert content.to == ["ada@example.com", "bob@example.com"]
        assert content.cc == ["carl@example.com"]
        assert content.message_id == f"<{content.dispatch_id}@example.com>"
    assert sorted(jobs()) == sorted(str(row.id) for row in rows)


def test_the_senders_of_the_source_are_the_default(host: Session) -> None:
    make_source(host, "shop", email_from="Shop <shop@example.net>", sms_from="SHOP")
    row = add_email(session=host, source="shop", to="a@example.com", subject="x", text="x")
    message = add_sms(session=host, source="shop", to="+12025550143", body="x")

    assert row.sender == "Shop <shop@example.net>"
    assert host.get_one(EmailContent, row.id).message_id == f"<{row.id}@example.net>"
    assert message.sender == "SHOP"


def test_a_source_that_was_just_added_can_ask(host: Session) -> None:
    new = Source(name="brand-new")
    host.add(new)

    row = add_email(session=host, source=new, to="a@example.com", subject="x", text="x")

    assert row.source_id == new.id


def test_an_unknown_source_is_named(host: Session) -> None:
    with pytest.raises(SourceUnknown, match="no source named 'nobody'"):
        add_email(session=host, source="nobody", to="a@example.com", subject="x", text="x")


def test_an_invalid_request_leaves_nothing(host: Session) -> None:
    with pytest.raises(InvalidRequest) as caught:
        email(host, to="nobody", subject="a\r\nBcc: eve@example.com")
    host.commit()

    assert {problem.field for problem in caught.value.problems} == {"to", "subject"}
    assert count(host) == 0


FILE = NewFile("отчёт Q4.pdf", "application/pdf", b"%PDF-1.7 \x00\xff")
INLINE = NewFile("logo.png", "image/png", b"\x89PNG", inline=True, content_id="logo@inline.invalid")


def stored(settings: Settings) -> list[Path]:
    root = settings.data_dir / "attachments"
    return [path for path in root.rglob("*") if path.is_file()] if root.exists() else []


def test_files_are_stored_and_come_back_byte_for_byte(host: Session, settings: Settings) -> None:
    row = email(host, attachments=[FILE, INLINE], cc=["bob@example.com"])
    host.commit()

    assert row.file_count == 2
    for one in host.scalars(select(Dispatch)):
        loaded = files_of(host, one, settings)
        assert [(file.filename, file.content, file.content_id) for file in loaded] == [
            ("отчёт Q4.pdf", FILE.content, ""),
            ("logo.png", INLINE.content, "logo@inline.invalid"),
        ]
    assert len(host.scalars(select(Attachment)).all()) == 2
    assert len(host.scalars(select(DispatchAttachment)).all()) == 4


def test_a_roll_back_removes_the_files_of_what_is_undone(host: Session, settings: Settings) -> None:
    already = set(stored(settings))
    email(host, attachments=[FILE])
    savepoint = host.begin_nested()
    email(host, attachments=[INLINE])
    assert len(set(stored(settings)) - already) == 2
    savepoint.rollback()
    assert len(set(stored(settings)) - already) == 1
    host.commit()
    assert len(set(stored(settings)) - already) == 1

    email(host, attachments=[INLINE])
    host.rollback()

    assert len(set(stored(settings)) - already) == 1


def test_a_file_of_another_source_cannot_be_named(host: Session) -> None:
    email(host, attachments=[FILE])
    host.commit()
    theirs = host.scalars(select(Attachment)).one()
    make_source(host, "shop")

    with pytest.raises(InvalidRequest) as caught:
        add_email(
            session=host,
            source="shop",
            to="a@example.com",
            subject="x",
            text="x",
            attachments=[str(theirs.id)],
        )

    assert [problem.field for problem in caught.value.problems] == ["attachments[0]"]
    assert email(host, attachments=[str(theirs.id)]).file_count == 1


# --- Redis away -------------------------------------------------------------------------------


@pytest.fixture
def hanging_port() -> Iterator[int]:
    """A port that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@pytest.fixture(params=["closed_port", "hanging_port"])
def without_redis(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Settings]:
    """The process's settings with a Redis that refuses or hangs."""
    port = request.getfixturevalue(request.param)
    broken = settings.model_copy(update={"redis_url": f"redis://127.0.0.1:{port}/0"})
    current_settings.use(broken)
    yield broken
    current_settings.use(settings)


@pytest.mark.usefixtures("without_redis")
def test_without_redis_the_commit_succeeds_in_two_seconds_and_the_rows_say_so(
    host: Session, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [email(host, priority=priority) for priority in ("high", "normal", "bulk")]
    started = time.monotonic()

    host.commit()

    assert time.monotonic() - started < 2
    for row in rows:
        host.refresh(row)
        assert (row.state, row.failure) == (State.ERRORED, Failure.PUBLISH)
        assert "Redis" in row.error
        assert row.published_at is None
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.getMessage() for record in errors] == ["publish failed"]


def test_without_redis_the_request_succeeds(asker: Asker, without_redis: Settings) -> None:
    asker = replace(asker, settings=without_redis)
    started = time.monotonic()

    answer = accept(db.session, Ask(parse_request(EMAIL)), asker)

    assert time.monotonic() - started < 2
    row = db.session.get_one(Dispatch, answer.id)
    assert (row.state, row.failure) == (State.ERRORED, Failure.PUBLISH)


# --- idempotency and budgets ------------------------------------------------------------------


@pytest.fixture
def asker(session: scoped_session[Session], settings: Settings) -> Asker:
    source = make_source(session())
    session.commit()
    return Asker(source, "token:test", settings)


class Statements:
    """Counts what is sent to the database, roll-backs and commits left out."""

    def __init__(self, engine: Engine) -> None:
        self.seen: list[str] = []
        self.engine = engine

    def _note(self, _c: object, _cursor: object, statement: str, *_rest: object) -> None:
        self.seen.append(statement.split("(")[0].strip())

    def __enter__(self) -> "Statements":
        event.listen(self.engine, "before_cursor_execute", self._note)
        return self

    def __exit__(self, *_: object) -> None:
        event.remove(self.engine, "before_cursor_execute", self._note)


@pytest.mark.parametrize(
    ("fields", "budget"),
    [
        ({}, 4),
        ({"cc": ["bob@example.com"], "bcc": ["carl@example.com"]}, 4),
        ({"attachments": [FILE, INLINE]}, 5),
    ],
)
def test_accepting_takes_few_statements(
    asker: Asker, fields: dict[str, object], budget: int
) -> None:
    request = parse_request({**EMAIL, **fields})
    with Statements(db.engine) as statements:
        accept(db.session, Ask(request, "key-1", "hash"), asker)

    # Besides the look-up of the token, which is one more.
    assert len(statements.seen) == budget, statements.seen


def test_a_batch_takes_no_more_statements_than_one(asker: Asker) -> None:
    asks = [Ask(parse_request(EMAIL), f"key-{number}", "hash") for number in range(300)]
    with Statements(db.engine) as statements:
        answers = accept_all(db.session, asks, asker)

    assert len({answer.id for answer in answers if isinstance(answer, Answer)}) == 300
    assert len(statements.seen) <= 8, statements.seen


def test_an_expired_key_makes_a_new_message(asker: Asker) -> None:
    ask = Ask(parse_request(EMAIL), "key-1", "hash")
    first = accept(db.session, ask, asker)
    assert accept(db.session, ask, asker) == Answer(first.id, (), replayed=True)
    db.session.execute(
        text("UPDATE idempotency SET created_at = now() - interval '7 days 1 second'")
    )
    db.session.commit()

    second = accept(db.session, ask, asker)

    assert second.id != first.id
    assert not second.replayed


def test_a_loser_takes_over_when_the_winner_rolls_back(asker: Asker, database: Engine) -> None:
    ask = Ask(parse_request(EMAIL), "key-1", "hash")
    answers: list[Answer] = []

    def lose() -> None:
        with Session(database) as other:
            source = other.scalars(select(Source)).one()
            answers.append(accept(other, ask, Asker(source, "token:test", asker.settings)))

    with Session(database) as winner:
        winner.execute(
            text(
                "INSERT INTO idempotency (source_id, key, body_hash, dispatch_id, copies)"
                " VALUES (:source, 'key-1', 'hash', gen_random_uuid(), '[]')"
            ),
            {"source": asker.source.id},
        )
        loser = threading.Thread(target=lose)
        loser.start()
        time.sleep(0.3)
        assert answers == []
        winner.rollback()
    loser.join(10)

    assert [answer.replayed for answer in answers] == [False]
    assert count(db.session()) == 1
