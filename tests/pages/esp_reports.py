"""Events of email services as they were seen, and dispatches that they are about."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

import dashboard.settings as process
from dashboard.dispatch.facts import Evidence
from dashboard.dispatch.models import Dispatch
from dashboard.dispatch.reports.models import StoredReport
from dashboard.dispatch.states import State
from dashboard.providers import registry
from dashboard.providers.anymail_esps import ESPS
from dashboard.settings import Settings
from tests.factories import make_attempt, make_dispatch
from tests.pages.esp_signing import BASE, keep_certificate
from tests.providers.esp_settings import set_up

DATA = Path(__file__).resolve().parent.parent / "data"
REPORTING = sorted(name for name, esp in ESPS.items() if esp.view)


def events_of(esp: str) -> dict[str, Any]:
    events: dict[str, Any] = json.loads((DATA / esp / "events.json").read_text())
    return events


@contextmanager
def all_configured(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process know every service, with what checks its webhooks."""
    for esp in REPORTING:
        set_up(monkeypatch, esp)
    keep_certificate()
    process.use(settings.model_copy(update={"public_base_url": BASE}))
    yield
    registry.close_all()
    process.use(settings)


def known(session: Session, esp: str, message_id: str, state: State = State.AWAITING) -> Dispatch:
    """Return a dispatch that a service has accepted under an id."""
    route, bare = f"anymail:{esp}", message_id.strip("<>")
    row = make_dispatch(session, state=state, provider=route, provider_message_id=bare, proven=True)
    evidence = Evidence.DELIVERED if state is State.SUCCEEDED else Evidence.ACCEPTED
    make_attempt(
        session,
        row,
        route=route,
        provider_message_id=bare,
        evidence=int(evidence),
        finished_at=func.now(),
    )
    if state is State.SUCCEEDED:
        row.delivered_attempt = 1
    session.commit()
    return row


def read(session: Session, row: Dispatch) -> Dispatch:
    session.expire_all()
    found = session.get(Dispatch, row.id)
    assert found is not None
    return found


def reports(session: Session) -> list[StoredReport]:
    session.expire_all()
    return list(session.scalars(select(StoredReport).order_by(StoredReport.received_at)))
