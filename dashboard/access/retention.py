"""Deletes sessions, one-time links and API tokens that have been of no use for thirty days.

Who had them and when is in the activity, which is kept.
"""

from datetime import datetime, timedelta

from sqlalchemy import delete, or_

from dashboard.access.models import ApiToken, SetupLink, UserSession
from dashboard.access.sessions import ABSOLUTE
from dashboard.database import AnySession

KEPT = timedelta(days=30)


def prune_access(session: AnySession, now: datetime) -> None:
    """Delete what ended, expired or was revoked over thirty days ago. Commits."""
    before = now - KEPT
    ended = or_(UserSession.revoked_at <= before, UserSession.created_at <= before - ABSOLUTE)
    session.execute(delete(UserSession).where(ended))
    session.execute(delete(SetupLink).where(SetupLink.expires_at <= before))
    useless = or_(ApiToken.expires_at <= before, ApiToken.revoked_at <= before)
    session.execute(delete(ApiToken).where(useless))
    session.commit()
