"""What follows the end of a transaction: publishing what it committed, removing what it did not.

For a session that belongs to somebody else, whose commit nobody here sees. A savepoint that is
rolled back takes along what was added in it and nothing more.
"""

import logging
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session, SessionTransaction, scoped_session

from dashboard.database import AnySession
from dashboard.dispatch.files.attachments import remove
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.publishing import fail_publish, publish_or_note
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.dispatch")

_KEY = "wireroom_outbox"
ByQueue = dict[str, list[uuid.UUID]]


@dataclass(slots=True)
class _Entry:
    """What one call added: it belongs to the innermost transaction it was added in."""

    transaction: SessionTransaction
    by_queue: ByQueue
    storage_keys: list[str]
    settings: Settings


@dataclass(slots=True)
class _Outbox:
    bind: Engine | Connection
    waiting: list[_Entry] = field(default_factory=list)
    committed: list[_Entry] = field(default_factory=list)


def plain(session: AnySession) -> Session:
    """Return the session itself where a scoped one is given."""
    if isinstance(session, scoped_session):
        found: Session = session()
        return found
    return session


def follow(
    session: AnySession,
    settings: Settings,
    *,
    by_queue: ByQueue | None = None,
    storage_keys: Sequence[str] = (),
) -> None:
    """Publish dispatches when the transaction of a session commits; remove files when it does not.

    Args:
        by_queue: dispatches that are due now, by queue.
        storage_keys: files that were written for them.
    """
    own = plain(session)
    outbox = own.info.get(_KEY)
    if outbox is None:
        outbox = own.info[_KEY] = _Outbox(own.get_bind(Dispatch))
        event.listen(own, "after_commit", _after_commit)
        event.listen(own, "after_transaction_end", _after_end)
    transaction = own.get_nested_transaction() or own.get_transaction() or own.begin()
    outbox.waiting.append(_Entry(transaction, by_queue or {}, list(storage_keys), settings))


def _after_commit(session: Session) -> None:
    """Note what was committed; a savepoint only hands it to the transaction around it."""
    outbox: _Outbox = session.info[_KEY]
    nested = session.get_nested_transaction()
    if nested is None:
        outbox.committed += outbox.waiting
        outbox.waiting = []
        return
    for entry in outbox.waiting:
        if entry.transaction is nested and nested.parent is not None:
            entry.transaction = nested.parent


def _after_end(session: Session, transaction: SessionTransaction) -> None:
    """Act when a transaction is over and its connection is given back: never hold one for Redis."""
    outbox: _Outbox = session.info[_KEY]
    undone = [entry for entry in outbox.waiting if entry.transaction is transaction]
    outbox.waiting = [entry for entry in outbox.waiting if entry.transaction is not transaction]
    for entry in undone:
        for key in entry.storage_keys:
            remove(key, entry.settings)
    if transaction.parent is None and outbox.committed:
        done, outbox.committed = outbox.committed, []
        _publish_committed(outbox.bind, done)


def _publish_committed(bind: Engine | Connection, done: Sequence[_Entry]) -> None:
    if isinstance(bind, Connection) and bind.in_transaction():
        # Somebody holds a transaction around the session's: nothing is committed yet, and nobody
        # will say when. The reconciler publishes what became of it.
        return
    together: ByQueue = {}
    for entry in done:
        for queue, ids in entry.by_queue.items():
            together.setdefault(queue, []).extend(ids)
    engine = bind.engine
    try:
        with Session(engine, expire_on_commit=False) as session:
            publish_all(session, together, done[0].settings)
    except SQLAlchemyError as error:
        # The caller's commit stands. Rows whose job was lost are found by the reconciler.
        logger.error("publish not noted", extra={"error": type(error).__name__})


def publish_all(session: AnySession, by_queue: ByQueue, settings: Settings) -> None:
    """Publish committed dispatches. After the first queue that Redis did not take, only notes.

    So a Redis that hangs costs its time-out once. Commits what it notes; see `publish_or_note`.
    """
    answers = True
    for queue, ids in _in_order(by_queue):
        if answers:
            answers = publish_or_note(session, [(queue, ids)], settings)
        else:
            fail_publish(session, ids, "it did not answer for another queue a moment ago")


def _in_order(by_queue: ByQueue) -> Iterable[tuple[str, list[uuid.UUID]]]:
    return sorted((queue, ids) for queue, ids in by_queue.items() if ids)
