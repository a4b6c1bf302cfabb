"""What the cleanup deletes, and what it must leave: real rows, real files, the real jobs."""

import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, scoped_session

import dashboard.settings as process
from dashboard.access.models import ApiToken, SetupLink, UserSession
from dashboard.access.models import User as Person
from dashboard.database import database_now
from dashboard.dispatch.files.attachments import sha256_of, store
from dashboard.dispatch.files.models import Attachment, DispatchAttachment
from dashboard.dispatch.models import (
    Attempt,
    Dispatch,
    EmailContent,
    Idempotency,
    Replacement,
    SmsContent,
    Transition,
)
from dashboard.dispatch.reports.models import ReportKey, ReportOutcome, StoredReport
from dashboard.dispatch.retention import slices
from dashboard.dispatch.states import Channel, State
from dashboard.queueing.connection import redis_connection
from dashboard.settings import Settings
from dashboard.workers.models import Heartbeat, TaskRun, Worker
from jobs import prune
from tests.factories import make_attempt, make_dispatch, make_source

Rows = scoped_session[Session]
DAY = timedelta(days=1)
ALWAYS_KEPT = [State.QUEUED, State.DELAYED, State.STALLED, State.SENDING, State.AWAITING]


@pytest.fixture
def kept(app: Flask, settings: Settings, tmp_path: Path) -> Iterator[Settings]:
    """Settings with ninety days for dispatches, a year for bodies, files in a folder of its own."""
    own = settings.model_copy(update={"attachment_root": str(tmp_path / "files")})
    process.use(own)
    yield own
    process.use(settings)


def make_old(session: Rows, state: State, *, days: float, **values: object) -> Dispatch:
    """Return a dispatch that was made, and last changed, so many days ago. Commits."""
    then = database_now(session) - days * DAY
    row = make_dispatch(session, state=state, created_at=then, updated_at=then, **values)
    session.commit()
    return row


def left(session: Rows) -> set[uuid.UUID]:
    session.expire_all()
    return set(session.scalars(select(Dispatch.id)))


def count(session: Rows, table: type) -> int:
    return session.scalar(select(func.count()).select_from(table)) or 0


@pytest.mark.parametrize("state", list(State))
def test_dispatches_go_when_their_time_is_over_and_never_one_to_be_sent(
    session: Rows, kept: Settings, state: State
) -> None:
    ages = {days: make_old(session, state, days=days).id for days in (89, 91, 364, 366)}
    prune.run()
    limit = {State.SENT: 90, State.SUCCEEDED: 90}.get(state, 365)
    expected = {id_ for days, id_ in ages.items() if state in ALWAYS_KEPT or days < limit}
    assert left(session) == expected


@pytest.mark.parametrize("channel", list(Channel))
def test_bodies_go_before_their_dispatches(session: Rows, kept: Settings, channel: Channel) -> None:
    process.use(kept.model_copy(update={"content_retention_days": 30.0}))
    recipient = "ada@example.com" if channel is Channel.EMAIL else "+12025550143"
    common = {"channel": channel, "recipient": recipient}
    gone = make_old(session, State.SUCCEEDED, days=31, **common)
    make_old(session, State.SUCCEEDED, days=29, **common)
    make_old(session, State.QUEUED, days=31, **common)
    prune.run()
    table = EmailContent if channel is Channel.EMAIL else SmsContent
    assert len(left(session)) == 3
    assert count(session, table) == 2
    assert session.get(table, gone.id) is None


def test_the_age_counts_from_the_last_thing_that_happened(session: Rows, kept: Settings) -> None:
    row = make_old(session, State.SUCCEEDED, days=200)
    session.execute(update(Dispatch).values(updated_at=func.now()))
    session.commit()
    prune.run()
    assert left(session) == {row.id}


def test_all_that_follows_a_dispatch_goes_with_it(session: Rows, kept: Settings) -> None:
    row = make_old(session, State.SUCCEEDED, days=91)
    make_attempt(session, row)
    report = StoredReport(
        provider="smtp", event="delivered", dispatch_id=row.id, outcome=ReportOutcome.APPLIED
    )
    session.add(report)
    session.flush()
    session.add(ReportKey(key="k", report_id=report.id))
    session.commit()
    prune.run()
    tables = (Dispatch, EmailContent, Attempt, Transition, StoredReport, ReportKey)
    assert {table.__tablename__: count(session, table) for table in tables} == {
        table.__tablename__: 0 for table in tables
    }


def test_a_replacement_stays_as_long_as_what_it_replaced(session: Rows, kept: Settings) -> None:
    old = make_old(session, State.ERRORED, days=200)
    new = make_old(session, State.SUCCEEDED, days=199, replaces_id=old.id)
    old.replaced_by_id = new.id
    session.add(Replacement(replaced_id=old.id, dispatch_id=new.id))
    session.commit()
    prune.run()
    assert left(session) == {old.id, new.id}

    long_ago = database_now(session) - 400 * DAY
    session.execute(update(Dispatch).values(created_at=long_ago, updated_at=long_ago))
    session.commit()
    prune.run()
    assert left(session) == set()
    assert count(session, Replacement) == 0


def test_the_first_of_several_stays_as_long_as_its_copies(session: Rows, kept: Settings) -> None:
    first = make_old(session, State.SUCCEEDED, days=91)
    copy = make_old(session, State.AWAITING, days=91, copy_of_id=first.id)
    prune.run()
    assert left(session) == {first.id, copy.id}


def test_a_row_that_somebody_holds_is_left_for_the_next_run(session: Rows, kept: Settings) -> None:
    held = make_old(session, State.SUCCEEDED, days=91)
    make_old(session, State.SUCCEEDED, days=91)
    with Session(session.get_bind()) as other:
        other.scalars(select(Dispatch).where(Dispatch.id == held.id).with_for_update()).one()
        prune.run()
        other.rollback()
    assert left(session) == {held.id}


def test_a_run_whose_time_is_over_queues_the_rest(
    session: Rows, kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_old(session, State.SUCCEEDED, days=91)
    monkeypatch.setattr(slices, "SLICE_SECONDS", -1)
    prune.run()
    run = session.scalars(select(TaskRun).order_by(TaskRun.started_at.desc())).first()
    assert run is not None
    assert run.outcome == "left"
    assert redis_connection(kept).llen("rq:queue:maintenance") == 1


def test_old_records_go_and_new_ones_stay(session: Rows, kept: Settings) -> None:
    now = database_now(session)
    source, person = make_source(session), Person(email="ada@example.com")
    session.add(person)
    session.flush()
    for number, then in enumerate((now - 40 * DAY, now)):
        name = f"n{number}"
        session.add_all(
            [
                StoredReport(
                    provider="smtp",
                    event="delivered",
                    received_at=then - 60 * DAY * (1 - number),
                    outcome=ReportOutcome.UNMATCHED,
                ),
                Idempotency(
                    source_id=source.id,
                    key=name,
                    body_hash="h",
                    dispatch_id=uuid.uuid4(),
                    created_at=then,
                ),
                TaskRun(task="release", started_at=then),
                Heartbeat(queue="default", asked_at=then),
                Worker(name=name, host="h", pid=1, queues=["default"], seen_at=then),
                UserSession(token_hash=name, user_id=person.id, created_at=then),
                SetupLink(token_hash=name, purpose="setup", expires_at=then),
                ApiToken(source_id=source.id, token_hash=name, expires_at=then),
            ]
        )
    session.commit()
    prune.run()
    for table in (StoredReport, Idempotency, Heartbeat, Worker, UserSession, SetupLink, ApiToken):
        assert count(session, table) == 1, table.__tablename__
    tasks = sorted(session.scalars(select(TaskRun.task)))
    assert tasks == ["prune", "release"]


def make_file(session: Rows, kept: Settings, *carriers: Dispatch, days: float = 0) -> Attachment:
    file = Attachment(
        source_id=make_source(session).id,
        filename="talk.pdf",
        content_type="application/pdf",
        size=4,
        sha256=sha256_of(b"%PDF"),
        storage_key=store(b"%PDF", kept),
        created_at=database_now(session) - days * DAY,
    )
    session.add(file)
    session.flush()
    session.add_all(
        DispatchAttachment(dispatch_id=row.id, position=0, attachment_id=file.id)
        for row in carriers
    )
    session.commit()
    return file


def is_there(session: Rows, kept: Settings, file: Attachment) -> bool:
    """Return whether a file is stored; its row must say the same."""
    session.refresh(file)
    stored = (Path(kept.attachment_root) / file.storage_key[:2] / file.storage_key).exists()
    assert stored is (file.deleted_at is None)
    return stored


@pytest.mark.parametrize(("age", "goes"), [(None, []), (0, [0, 1]), (3600, [1])])
def test_files_go_when_every_carrier_is_done_for_long_enough(
    session: Rows, kept: Settings, age: int | None, goes: list[int]
) -> None:
    process.use(kept.model_copy(update={"attachment_max_age_seconds": age}))
    just_done = make_old(session, State.SUCCEEDED, days=0)
    long_done = make_old(session, State.CANCELLED, days=1)
    errored = make_old(session, State.ERRORED, days=1)
    files = [
        make_file(session, kept, just_done),
        make_file(session, kept, long_done),
        make_file(session, kept, make_old(session, State.SENT, days=1), errored),
        make_file(session, kept),
    ]
    prune.run_files()
    gone = [number for number, file in enumerate(files) if not is_there(session, kept, file)]
    assert gone == goes


def test_files_that_nothing_carries_go_as_late_as_dispatches(session: Rows, kept: Settings) -> None:
    orphan, young = make_file(session, kept, days=91), make_file(session, kept, days=89)
    carried = make_file(session, kept, make_old(session, State.QUEUED, days=91), days=91)
    prune.run()
    assert not is_there(session, kept, orphan)
    assert is_there(session, kept, young)
    assert is_there(session, kept, carried)


def test_a_file_that_cannot_be_deleted_is_tried_again(session: Rows, kept: Settings) -> None:
    file = make_file(session, kept, days=91)
    path = Path(kept.attachment_root) / file.storage_key[:2] / file.storage_key
    path.unlink()
    path.mkdir()  # what no unlink() removes, whoever asks
    prune.run()
    session.refresh(file)
    assert file.deleted_at is None
    path.rmdir()
    prune.run()
    session.refresh(file)
    assert file.deleted_at is not None
