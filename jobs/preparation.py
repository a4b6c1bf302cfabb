"""Builds the messages of claimed dispatches before the hand-over is marked.

Whatever goes wrong here never reached a provider, so it is our own fault and says so.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from dashboard.database import db
from dashboard.dispatch.claims import Claim
from dashboard.dispatch.files.attachments import AttachmentError
from dashboard.dispatch.files.carried import files_of
from dashboard.dispatch.outcomes import Result
from dashboard.dispatch.rendering import ContentMissing, render
from dashboard.dispatch.states import Failure
from dashboard.dispatch.suppressions import NOT_HANDED_OVER
from dashboard.providers.base import Email, Outcome, OutcomeKind, Sms
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.worker")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A claim with the message that goes out for it."""

    claim: Claim
    message: Email | Sms


def prepare(claimed: Sequence[Claim], settings: Settings) -> tuple[list[Prepared], list[Result]]:
    """Return the messages that can go out, and the results of those that may not or cannot."""
    prepared, failed = [], []
    for claim in claimed:
        if claim.suppressed:
            failed.append(_suppressed(claim))
            continue
        try:
            files = files_of(db.session, claim.dispatch, settings)
            prepared.append(Prepared(claim, render(claim.dispatch, files)))
        except (AttachmentError, ContentMissing) as error:
            failed.append(_failed(claim, Outcome(OutcomeKind.PERMANENT, detail=str(error))))
        except OSError as error:
            detail = f"{type(error).__name__}: {error.strerror or 'reading its files failed'}"
            failed.append(_failed(claim, Outcome(OutcomeKind.TRANSIENT, detail=detail)))
        except (ValueError, TypeError, KeyError) as error:
            logger.exception("message not built", extra={"dispatch_id": claim.dispatch.id})
            detail = f"{type(error).__name__}: {error}"
            failed.append(_failed(claim, Outcome(OutcomeKind.PERMANENT, detail=detail)))
    db.session.commit()
    return prepared, failed


def _suppressed(claim: Claim) -> Result:
    outcome = Outcome(OutcomeKind.PERMANENT, detail=NOT_HANDED_OVER)
    row = claim.dispatch
    return Result(
        row.id,
        claim.attempt_id,
        claim.number,
        claim.route,
        outcome,
        Failure.SUPPRESSED,
        row.channel,
    )


def _failed(claim: Claim, outcome: Outcome) -> Result:
    failure = Failure.BUG if outcome.kind is OutcomeKind.PERMANENT else Failure.NONE
    row = claim.dispatch
    return Result(
        row.id, claim.attempt_id, claim.number, claim.route, outcome, failure, row.channel
    )
