"""What a job does about dispatches it was to send and could not claim: say why, and end.

Does not send and does not change a state.
"""

import logging
import threading
import uuid
from collections.abc import Collection

from sqlalchemy import func, select, update

from dashboard.database import db
from dashboard.dispatch.claims import claimable
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.states import WAITING
from dashboard.queueing.publish import PublishFailed, publish

logger = logging.getLogger("wireroom.worker")

AGAIN_SECONDS = 10


def look_into(ids: Collection[uuid.UUID], queue: str) -> None:
    """Say at info why each was not claimed; publish again in 10 s what only was locked.

    Rows that wait but may not be claimed now (held, not due) lose their `published_at`, so that
    `release` publishes them when they may. Commits.
    """
    ready = claimable(func.statement_timestamp()).label("ready")
    rows = {
        row.id: row
        for row in db.session.execute(
            select(Dispatch.id, Dispatch.state, ready).where(Dispatch.id.in_(list(ids)))
        )
    }
    locked = []
    waiting = []
    for dispatch_id in ids:
        row = rows.get(dispatch_id)
        state = row.state.value if row else "unknown to the database"
        logger.info("dispatch not claimed", extra={"dispatch_id": dispatch_id, "state": state})
        if row and row.ready:
            locked.append(dispatch_id)
        elif row and row.state in WAITING:
            waiting.append(dispatch_id)
    _unpublish(waiting)
    if locked:
        timer = threading.Timer(AGAIN_SECONDS, put_back, (locked, queue))
        timer.daemon = True
        timer.start()


def _unpublish(ids: Collection[uuid.UUID]) -> None:
    if ids:
        free = select(Dispatch.id).where(Dispatch.id.in_(list(ids)), Dispatch.state.in_(WAITING))
        db.session.execute(
            update(Dispatch)
            .where(Dispatch.id.in_(free.with_for_update(skip_locked=True)))
            .values(published_at=None)
            .execution_options(synchronize_session=False)
        )
    db.session.commit()


def put_back(ids: Collection[uuid.UUID], queue: str) -> None:
    """Publish dispatches again that this worker does not get to; touches Redis only.

    What Redis does not take is found by the reconciler: its job counts as lost after 30 s.
    """
    if not ids:
        return
    try:
        publish(queue, list(ids))
    except PublishFailed as error:
        logger.warning("not put back", extra={"queue": queue, "error": str(error)})
