"""Idempotency keys: the same request twice is one message, however close together they come.

A key belongs to one source and is kept for seven days. The unique index decides: whoever inserts
the key first makes the message; the others wait for that commit and read its answer. If it was
rolled back, one of those who waited takes over.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert

from dashboard.database import AnySession
from dashboard.dispatch.models import Idempotency
from dashboard.dispatch.request.fields import line_problem
from dashboard.dispatch.request.requests import InvalidRequest, Problem

KEPT_FOR = timedelta(days=7)
KEY_CHARACTERS = 255
_ROUNDS = 5


class KeyReused(Exception):
    """The key was used with another body: the caller mixed something up (409)."""

    def __init__(self, dispatch_id: uuid.UUID) -> None:
        super().__init__(
            f"This Idempotency-Key was used with another body, for dispatch {dispatch_id}. Nothing"
            " was accepted. Use a new key for a new message."
        )
        self.dispatch_id = dispatch_id


@dataclass(frozen=True, slots=True)
class Claim:
    """A key, what it stands for, and the dispatches that it will answer with."""

    key: str
    body_hash: str
    dispatch_id: uuid.UUID
    copies: tuple[uuid.UUID, ...] = ()


def check_key(key: str) -> str:
    """Return an Idempotency-Key as it is stored: upper and lower case are kept apart.

    Raises:
        InvalidRequest: when it is empty, too long, or not one line.
    """
    message = line_problem(key)
    if not key.strip():
        message = "It is empty; leave the header out or give a key."
    elif len(key) > KEY_CHARACTERS:
        message = f"It has {len(key)} characters; at most {KEY_CHARACTERS} are possible."
    if message:
        raise InvalidRequest([Problem("Idempotency-Key", message)])
    return key


def body_hash(body: Mapping[str, object]) -> str:
    """Return what two bodies that say the same have in common, whatever their order and spaces."""
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode("ascii")).hexdigest()


def reserve(
    session: AnySession, source_id: uuid.UUID, claims: Sequence[Claim]
) -> Mapping[str, Idempotency]:
    """Take keys for new dispatches; return, by key, those that were taken before. Does not commit.

    Waits for whoever is taking one of them right now. One statement when all of them are new.
    """
    wanted = {claim.key: claim for claim in claims}
    taken: dict[str, Idempotency] = {}
    for _ in range(_ROUNDS):
        got = _insert(session, source_id, wanted.values())
        wanted = {key: claim for key, claim in wanted.items() if key not in got}
        if not wanted:
            return taken
        for key, row in _existing(session, source_id, wanted).items():
            taken[key] = row
            del wanted[key]
        # What is left expired, or was given back between the two statements: try again.
    raise TimeoutError("An idempotency key was taken and given back again and again; try later.")


def _insert(session: AnySession, source_id: uuid.UUID, claims: Iterable[Claim]) -> set[str]:
    # In the order of the keys, so that two batches with the same keys cannot wait for each other.
    rows = [
        {
            "source_id": source_id,
            "key": claim.key,
            "body_hash": claim.body_hash,
            "dispatch_id": claim.dispatch_id,
            "copies": [str(copy) for copy in claim.copies],
        }
        for claim in sorted(claims, key=lambda claim: claim.key)
    ]
    if not rows:
        return set()
    statement = insert(Idempotency).on_conflict_do_nothing().returning(Idempotency.key)
    return set(session.connection().scalars(statement, rows))


def _existing(
    session: AnySession, source_id: uuid.UUID, keys: Iterable[str]
) -> dict[str, Idempotency]:
    """Return the rows of keys that are still valid; expired ones are deleted."""
    wanted = list(keys)
    ours = (Idempotency.source_id == source_id, Idempotency.key.in_(wanted))
    fresh = Idempotency.created_at > func.statement_timestamp() - KEPT_FOR
    rows = session.scalars(select(Idempotency).where(*ours, fresh))
    found = {row.key: row for row in rows}
    if len(found) < len(wanted):
        session.execute(
            delete(Idempotency).where(*ours, ~fresh).execution_options(synchronize_session=False)
        )
    return found


def give_back(session: AnySession, source_id: uuid.UUID, keys: Sequence[str]) -> None:
    """Free keys that were reserved in this transaction and are not used. Does not commit."""
    session.execute(
        delete(Idempotency)
        .where(Idempotency.source_id == source_id, Idempotency.key.in_(list(keys)))
        .execution_options(synchronize_session=False)
    )


def answers_with(row: Idempotency, claim: Claim) -> None:
    """Check that a taken key stands for the same body.

    Raises:
        KeyReused: when it does not.
    """
    if row.body_hash != claim.body_hash:
        raise KeyReused(row.dispatch_id)
