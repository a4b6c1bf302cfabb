"""API tokens: shown once, stored as a hash, of one source, with permissions and an end."""

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import joinedload

from dashboard.access.models import ApiToken, Source
from dashboard.access.permissions import Permission
from dashboard.database import AnySession

PREFIX = "wr_"
SHOWN = 10
USED_EVERY = timedelta(minutes=1)


def make_token(
    session: AnySession,
    source: Source,
    name: str,
    permissions: Iterable[Permission],
    expires_at: datetime | None = None,
) -> str:
    """Make a token and return its text, which cannot be shown again. Does not commit."""
    text = PREFIX + secrets.token_urlsafe(32)
    session.add(
        ApiToken(
            source_id=source.id,
            name=name,
            token_hash=_hash(text),
            prefix=text[:SHOWN],
            permissions=sorted(permission.value for permission in permissions),
            expires_at=expires_at,
        )
    )
    return text


def _hash(text: str) -> str:
    # A token has 256 random bits, so that a fast hash is as good as a slow one.
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def find_token(session: AnySession, text: str) -> ApiToken | None:
    """Return the valid token of this text, with its source: one statement.

    At most once a minute a second one notes that it is in use, and commits that: ask before the
    transaction holds anything else.
    """
    if not text.startswith(PREFIX):
        return None
    now = func.statement_timestamp()
    stale = or_(ApiToken.last_used_at.is_(None), ApiToken.last_used_at < now - USED_EVERY)
    row = session.execute(
        select(ApiToken, stale)
        .options(joinedload(ApiToken.source))
        .where(
            ApiToken.token_hash == _hash(text),
            ApiToken.revoked_at.is_(None),
            or_(ApiToken.expires_at.is_(None), ApiToken.expires_at > now),
        )
    ).first()
    if row is None:
        return None
    token, is_stale = row
    if is_stale:
        session.execute(
            update(ApiToken)
            .where(ApiToken.id == token.id)
            .values(last_used_at=func.statement_timestamp())
            .execution_options(synchronize_session=False)
        )
        session.commit()
    found: ApiToken = token
    return found


def bearer(header: str) -> str:
    """Return the token of an Authorization header, or nothing."""
    scheme, _, text = header.strip().partition(" ")
    return text.strip() if scheme.lower() == "bearer" else ""
