"""The OpenAPI 3.1 description of `/api/v1`, written by hand and compared with the routes by a test.

The schemas of what is sent and answered are in `api_schemas.py`.
"""

from dashboard.pages.api_schemas import SCHEMAS

Json = dict[str, object]

_DISPATCH_ID: Json = {
    "name": "dispatch_id",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
}
_KEY: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": (
        "Any text of 1 to 255 characters, of your source alone, kept for 7 days. The same key with"
        " the same body answers as before (Idempotent-Replayed: true), with another body 409."
    ),
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
}
_DRY_RUN: Json = {
    "name": "Dry-Run",
    "in": "header",
    "description": "true: check everything, change nothing, say what would happen (200).",
    "schema": {"type": "string", "enum": ["true", "false"]},
}


def description() -> Json:
    """Return the description of the whole API."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Wireroom",
            "version": "1",
            "description": "Hand over email and SMS, and ask what became of them.",
        },
        "servers": [{"url": "/api/v1"}],
        "security": [{"token": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": SCHEMAS,
        },
    }


def _paths() -> Json:
    return {
        "/dispatches": {"post": _create(), "get": _list()},
        "/dispatches/batch": {"post": _create_batch()},
        "/dispatches/{dispatch_id}": {
            "parameters": [_DISPATCH_ID],
            "get": {
                "operationId": "show",
                "summary": "All that is known about a dispatch, apart from what it says",
                "responses": {
                    "200": _answer("The dispatch", "Dispatch"),
                    **_problems(401, 403, 404),
                },
            },
            "patch": _reschedule(),
        },
        "/dispatches/{dispatch_id}/retry": _action("retry", "Queue it again", "Confirmation"),
        "/dispatches/{dispatch_id}/cancel": _action("cancel", "Never send it", "Reason"),
        "/dispatches/{dispatch_id}/resend": _action("resend", "Replace it", "Confirmation"),
        "/dispatches/{dispatch_id}/check": _check(),
        "/attachments": {"post": _upload()},
        "/sandbox/messages": {"get": _sandbox()},
        "/openapi.json": {
            "get": {
                "operationId": "openapi",
                "summary": "This description",
                "security": [],
                "responses": {"200": {"description": "OpenAPI 3.1"}},
            }
        },
    }


def _create() -> Json:
    return {
        "operationId": "create",
        "summary": "Accept one message",
        "parameters": [_KEY, _DRY_RUN],
        "requestBody": _body("Message"),
        "responses": {
            "202": {
                **_answer("Accepted: it is stored, and goes out", "Accepted"),
                "headers": {
                    "Location": {"schema": {"type": "string"}},
                    "Idempotent-Replayed": {"schema": {"type": "string", "enum": ["true"]}},
                },
            },
            "200": _answer("What a dry run would accept", "WouldAccept"),
            **_problems(400, 401, 403, 409, 413, 415),
        },
    }


def _list() -> Json:
    texts = ("state", "view", "channel", "kind", "provider", "target_type", "target_id", "cursor")
    parameters = [
        *(_query(name, {"type": "string"}) for name in texts),
        *(_query(name, {"type": "string", "format": "date-time"}) for name in ("from", "until")),
        # Each is name=text; every one given must be there.
        _query("label", {"type": "array", "items": {"type": "string"}}),
        _query("limit", {"type": "integer", "minimum": 1, "maximum": 200, "default": 50}),
    ]
    return {
        "operationId": "list_all",
        "summary": "Dispatches of the token's source, newest first",
        "parameters": parameters,
        "responses": {"200": _answer("A page", "Page"), **_problems(400, 401, 403)},
    }


def _query(name: str, schema: Json) -> Json:
    return {"name": name, "in": "query", "schema": schema}


def _create_batch() -> Json:
    return {
        "operationId": "create_batch",
        "summary": "Accept up to 1,000 messages, each judged alone",
        "parameters": [_KEY, _DRY_RUN],
        "requestBody": _body("Batch"),
        "responses": {
            "202": _answer("A result for each message, in order", "Results"),
            "200": {"description": "What a dry run would accept"},
            **_problems(400, 401, 403, 413, 415),
        },
    }


def _action(name: str, summary: str, schema: str) -> Json:
    responses: Json = {
        "202": _answer("Done; for a resend this is the new dispatch", "Acted"),
        "200": _answer("What would happen (dry run)", "WouldAct"),
        **_problems(400, 401, 403, 404, 409, 413, 415),
    }
    operation: Json = {
        "operationId": name,
        "summary": summary,
        "parameters": [_DRY_RUN],
        "requestBody": {**_body(schema), "required": False},
        "responses": responses,
    }
    return {"parameters": [_DISPATCH_ID], "post": operation}


def _reschedule() -> Json:
    return {
        "operationId": "reschedule",
        "summary": "Let a waiting dispatch go out at another time; due at once if it is past",
        "parameters": [_DRY_RUN],
        "requestBody": _body("NewTime"),
        "responses": {
            "200": _answer("Done, or (dry run) what would happen", "Rescheduled"),
            **_problems(400, 401, 403, 404, 409, 413, 415),
        },
    }


def _check() -> Json:
    operation: Json = {
        "operationId": "check",
        "summary": "Ask the provider now what became of it; what it says is applied",
        "parameters": [_DRY_RUN],
        "responses": {
            "200": _answer("What the provider said, or (dry run) who would be asked", "Checked"),
            **_problems(400, 401, 403, 404, 409),
        },
    }
    return {"parameters": [_DISPATCH_ID], "post": operation}


def _upload() -> Json:
    return {
        "operationId": "upload_file",
        "summary": "Store a file that messages name by its id",
        "parameters": [_DRY_RUN],
        "requestBody": _body("File"),
        "responses": {
            "201": _answer("Stored", "StoredFile"),
            "200": {"description": "It could be stored (dry run)"},
            **_problems(400, 401, 403, 413, 415),
        },
    }


def _sandbox() -> Json:
    return {
        "operationId": "sandbox_messages",
        "summary": "What the sandbox captured, newest first (development only)",
        "parameters": [
            {"name": "limit", "in": "query", "schema": {"type": "integer", "maximum": 200}},
            {"name": "before", "in": "query", "schema": {"type": "string"}},
        ],
        "responses": {"200": {"description": "The messages"}, **_problems(401, 403, 404)},
    }


def _body(schema: str) -> Json:
    return {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def _answer(text: str, schema: str) -> Json:
    return {
        "description": text,
        "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
    }


def _problems(*statuses: int) -> Json:
    reference = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        str(status): {
            "description": "Refused, and why",
            "content": {"application/problem+json": reference},
        }
        for status in statuses
    }
