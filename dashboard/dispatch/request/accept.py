"""accept(): stores requests of the API and the command line, commits once, and publishes.

What a request may say is in `validation.py`; for a caller's own transaction see `intake.py`.
"""

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dashboard.database import AnySession
from dashboard.dispatch.files.attachments import remove
from dashboard.dispatch.request.idempotency import (
    Claim,
    KeyReused,
    answers_with,
    give_back,
    reserve,
)
from dashboard.dispatch.request.outbox import publish_all
from dashboard.dispatch.request.request_files import missing_files, plan, store_files
from dashboard.dispatch.request.requests import InvalidRequest, Request
from dashboard.dispatch.request.rows import Asker, Planned, write_rows
from dashboard.logs import dispatch_fields

logger = logging.getLogger("wireroom.dispatch")


@dataclass(frozen=True, slots=True)
class Ask:
    """A valid request and the key under which repeating it changes nothing (empty: none)."""

    request: Request
    key: str = ""
    body_hash: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What was accepted: the dispatch of the first recipient, and those of all others."""

    id: uuid.UUID
    copies: tuple[uuid.UUID, ...] = ()
    replayed: bool = False


Judged = Answer | InvalidRequest | KeyReused


def accept(session: AnySession, ask: Ask, asker: Asker) -> Answer:
    """Store one request and publish it. Commits once, then publishes.

    A publish that fails does not fail the request: the row is there, and goes out later.

    Raises:
        InvalidRequest: it names a file that the source does not have.
        KeyReused: its key was used with another body.
    """
    judged = accept_all(session, [ask], asker)[0]
    if isinstance(judged, Answer):
        return judged
    raise judged


def accept_all(session: AnySession, asks: Sequence[Ask], asker: Asker) -> list[Judged]:
    """Store requests, each judged alone, and publish them. Commits once, then publishes.

    Returns:
        for each request, in order, its answer or what is wrong with it.
    """
    plans = [plan(ask.request) for ask in asks]
    judged = _replays(session, asks, plans, asker.source.id)
    judged |= _without_files(session, asks, judged, asker.source.id)
    wanted = [index for index in range(len(asks)) if index not in judged]
    if not wanted:
        session.commit()
        return [judged[index] for index in range(len(asks))]
    stored: list[str] = []
    try:
        for index in wanted:
            plans[index], keys = store_files(plans[index], asker.settings)
            stored += keys
        due = write_rows(session, [plans[index] for index in wanted], asker)
        session.commit()
    except BaseException:
        session.rollback()
        for key in stored:
            remove(key, asker.settings)
        raise
    for index in wanted:
        judged[index] = Answer(plans[index].ids[0], plans[index].ids[1:])
        _log(asks[index].request, plans[index].ids[0], asker.actor)
    publish_all(session, due, asker.settings)
    return [judged[index] for index in range(len(asks))]


def _replays(
    session: AnySession, asks: Sequence[Ask], plans: Sequence[Planned], source_id: uuid.UUID
) -> dict[int, Judged]:
    """Reserve the keys; return the answers of those that were used before, by position."""
    claims = {
        index: Claim(ask.key, ask.body_hash, plan.ids[0], plan.ids[1:])
        for index, (ask, plan) in enumerate(zip(asks, plans, strict=True))
        if ask.key
    }
    if not claims:
        return {}
    taken = reserve(session, source_id, list(claims.values()))
    replays: dict[int, Judged] = {}
    for index, claim in claims.items():
        row = taken.get(claim.key)
        if row is None:
            continue
        try:
            answers_with(row, claim)
            copies = tuple(uuid.UUID(copy) for copy in row.copies)
            replays[index] = Answer(row.dispatch_id, copies, replayed=True)
        except KeyReused as error:
            replays[index] = error
    return replays


def _without_files(
    session: AnySession, asks: Sequence[Ask], judged: Mapping[int, Judged], source_id: uuid.UUID
) -> dict[int, Judged]:
    """Return the requests that name files which are not there, by position; free their keys."""
    new = [index for index in range(len(asks)) if index not in judged]
    missing = missing_files(session, source_id, [asks[index].request for index in new])
    keys = [asks[new[position]].key for position in missing if asks[new[position]].key]
    if keys:
        give_back(session, source_id, keys)
    return {new[position]: problem for position, problem in missing.items()}


def _log(request: Request, dispatch_id: uuid.UUID, actor: str) -> None:
    common = request.common
    logger.info(
        "dispatch",
        extra=dispatch_fields(
            id=dispatch_id,
            channel=request.channel.value,
            kind=common.kind,
            state_to="queued",
            trigger="request",
            actor=actor,
            target=f"{common.target_type}:{common.target_id}" if common.target_type else "",
        ),
    )
