"""`/healthz`: the process is up. `/readyz`: it can do its work, with the reasons when not."""

from pathlib import Path

from flask import Blueprint, Response, current_app, jsonify
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from dashboard.access.requires import public
from dashboard.database import db
from dashboard.dispatch.health import scheduler_now
from dashboard.settings import current

blueprint = Blueprint("health", __name__)

MIGRATIONS = Path(__file__).resolve().parents[2] / "migrations" / "versions"


@blueprint.get("/healthz")
@public("a process manager asks whether the process is up")
def healthz() -> Response:
    """Answer that the process is up, whatever else is down."""
    return jsonify(status="ok")


@blueprint.get("/readyz")
@public("a load balancer asks whether to send requests here")
def readyz() -> tuple[Response, int]:
    """Answer whether database, Redis, scheduler and tables are as they must be."""
    reasons = {**_database(), **_scheduler()}
    ready = not any(reasons.values())
    body = jsonify(status="ready" if ready else "not ready", reasons=reasons)
    return body, 200 if ready else 503


def _database() -> dict[str, str]:
    """Return what is wrong with the database and its tables, in words; empty where nothing is."""
    try:
        found = set(db.session.scalars(text("SELECT version_num FROM alembic_version")))
    except SQLAlchemyError as error:
        db.session.remove()
        current_app.logger.warning("database away", extra={"error": type(error).__name__})
        return {"database": "PostgreSQL does not answer.", "migrations": ""}
    head = max(path.name[:4] for path in MIGRATIONS.glob("[0-9]*.py"))
    wrong = "" if found == {head} else "The tables are of another version: run wireroom migrate."
    return {"database": "", "migrations": wrong}


def _scheduler() -> dict[str, str]:
    state = scheduler_now(current())
    if not state.redis_answers:
        return {"redis": "Redis does not answer.", "scheduler": ""}
    if state.is_late:
        seen = f"{state.seen_seconds:.0f} s ago" if state.seen_seconds is not None else "never"
        return {"redis": "", "scheduler": f"The scheduler was last seen {seen}."}
    return {"redis": "", "scheduler": ""}
