"""What the API answers when it cannot do what was asked: problem+json (RFC 9457), fields named.

Does not repeat what was sent: no address, no content.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from flask import Blueprint, Response
from werkzeug.exceptions import HTTPException

from dashboard.access.scope import NotAllowed, OutOfScope, SignInNeeded
from dashboard.dispatch.actions.press import ActionRefused, ConfirmationNeeded
from dashboard.dispatch.request.idempotency import KeyReused
from dashboard.dispatch.request.requests import InvalidRequest, Problem

logger = logging.getLogger("wireroom.api")

CONTENT_TYPE = "application/problem+json"
NOT_VALID = "The request is not valid"


class TokenRefused(Exception):
    """A bearer token is unknown, expired or revoked (401)."""


def problem(
    status: int, detail: str, *, title: str = "", problems: Sequence[Problem] = ()
) -> Response:
    """Return a problem answer."""
    body = problem_body(status, detail, title=title, problems=problems)
    return Response(json.dumps(body, ensure_ascii=False), status, content_type=CONTENT_TYPE)


def problem_body(
    status: int, detail: str, *, title: str = "", problems: Sequence[Problem] = ()
) -> dict[str, object]:
    """Return the content of a problem answer; a batch has one for each message that is refused."""
    return {
        "type": "about:blank",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "errors": [{"field": one.field, "message": one.message} for one in problems],
    }


def body_of(error: InvalidRequest | KeyReused) -> dict[str, object]:
    """Return the problem that a refused request is."""
    if isinstance(error, InvalidRequest):
        count = len(error.problems)
        detail = "Nothing was accepted. " + (
            f"{error.problems[0].field}: {error.problems[0].message}"
            if count == 1
            else f"{count} fields are wrong; see errors."
        )
        return problem_body(400, detail, title=NOT_VALID, problems=error.problems)
    return problem_body(409, str(error), title="The idempotency key was used for something else")


def register(blueprint: Blueprint) -> None:
    """Answer every refusal under a blueprint with a problem."""
    blueprint.register_error_handler(InvalidRequest, _refused)
    blueprint.register_error_handler(KeyReused, _refused)
    blueprint.register_error_handler(ActionRefused, _not_now)
    blueprint.register_error_handler(NotAllowed, _not_allowed)
    blueprint.register_error_handler(OutOfScope, _not_there)
    blueprint.register_error_handler(SignInNeeded, _no_token)
    blueprint.register_error_handler(TokenRefused, _no_token)
    blueprint.register_error_handler(OSError, _not_stored)
    blueprint.register_error_handler(HTTPException, _http)


def _refused(error: InvalidRequest | KeyReused) -> Response:
    body: Mapping[str, object] = body_of(error)
    content = json.dumps(body, ensure_ascii=False)
    return Response(content, int(str(body["status"])), content_type=CONTENT_TYPE)


def _not_now(error: ActionRefused) -> Response:
    title = "A confirmation is needed" if isinstance(error, ConfirmationNeeded) else "Not possible"
    confirm = ' Send {"confirm": true} to confirm.' if isinstance(error, ConfirmationNeeded) else ""
    newest = f" The newest is {error.newest}." if error.newest else ""
    return problem(error.status, f"{error.sentence}{newest}{confirm}", title=title)


def _not_allowed(error: NotAllowed) -> Response:
    return problem(403, str(error))


def _not_there(_: OutOfScope) -> Response:
    return problem(404, "There is nothing here, or it belongs to another source than your token.")


def _not_stored(error: OSError) -> Response:
    """Answer that the disk (or a lock) did not let us: nothing was accepted, a repeat is safe."""
    logger.error("request not stored", extra={"error": type(error).__name__, "code": error.errno})
    detail = "Nothing was accepted: it could not be stored just now. Send it again, with its key."
    answer = problem(503, detail)
    answer.headers["Retry-After"] = "30"
    return answer


def _no_token(error: Exception) -> Response:
    detail = str(error) or "Send an API token: Authorization: Bearer wr_…"
    answer = problem(401, detail)
    answer.headers["WWW-Authenticate"] = 'Bearer realm="wireroom"'
    return answer


def _http(error: HTTPException) -> Response:
    answer = problem(error.code or 500, error.description or "")
    for name, value in error.get_headers():
        if name.lower() in ("allow", "retry-after"):
            answer.headers[name] = value
    return answer
