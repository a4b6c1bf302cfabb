"""The schemas of the API's description: what is sent, and what is answered."""

from collections.abc import Mapping

Json = dict[str, object]

_TEXT: Json = {"type": "string"}
_MOMENT: Json = {"type": ["string", "null"], "format": "date-time"}
_ADDRESSES: Json = {"type": "array", "items": {"type": "string"}, "maxItems": 50}
_ID: Json = {"type": "string", "format": "uuid"}
_MAYBE_ID: Json = {"type": ["string", "null"], "format": "uuid"}


def _object(properties: Mapping[str, object], *required: str, closed: bool = True) -> Json:
    found: Json = {"type": "object", "properties": dict(properties)}
    if required:
        found["required"] = list(required)
    if closed:
        found["additionalProperties"] = False
    return found


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_COMMON: Json = {
    "kind": {"type": "string", "default": "message"},
    "target": _object(
        {
            "type": {"type": "string", "maxLength": 200},
            "id": {"type": "string", "maxLength": 200},
        },
        "type",
        "id",
    ),
    "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 50},
    "send_at": {"type": "string", "format": "date-time", "description": "With an offset."},
    "valid_for_seconds": {"type": "integer", "minimum": 1},
    "priority": {"type": "string", "enum": ["high", "normal", "bulk"], "default": "normal"},
}
_FILE: Json = _object(
    {
        "filename": {"type": "string", "description": "A name, never a path."},
        "content_type": {"type": "string", "default": "application/octet-stream"},
        "content": {"type": "string", "contentEncoding": "base64"},
        "inline": {"type": "boolean", "default": False},
        "content_id": {"type": "string", "description": "What stands after cid: in the HTML."},
    },
    "filename",
    "content",
)
_NAMED_FILE: Json = _object(
    {"id": _ID, "inline": {"type": "boolean"}, "content_id": _TEXT},
    "id",
)

_ACTED: Json = {"id": _ID, "state": _TEXT, "url": _TEXT}

SCHEMAS: Json = {
    "File": _FILE,
    "StoredFile": _object(
        {
            "id": _ID,
            "filename": _TEXT,
            "content_type": _TEXT,
            "size": {"type": "integer"},
            "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        },
        *("id", "filename", "content_type", "size", "sha256"),
    ),
    "Message": {"oneOf": [_reference("Email"), _reference("Sms")]},
    "Email": _object(
        {
            "channel": {"const": "email"},
            "to": {"oneOf": [_TEXT, _ADDRESSES]},
            "cc": _ADDRESSES,
            "bcc": _ADDRESSES,
            "from": {"type": "string", "description": "An address, or Display Name <address>."},
            "reply_to": _ADDRESSES,
            "subject": {"type": "string", "maxLength": 998},
            "text": _TEXT,
            "html": _TEXT,
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "attachments": {
                "type": "array",
                "items": {"oneOf": [_reference("File"), _NAMED_FILE, _ID]},
                "maxItems": 30,
            },
            **_COMMON,
        },
        "channel",
        "to",
        "subject",
    ),
    "Sms": _object(
        {
            "channel": {"const": "sms"},
            "to": {"type": "string", "pattern": "^\\+[1-9][0-9]{6,14}$"},
            "from": _TEXT,
            "body": {"type": "string", "maxLength": 1600},
            "media_url": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
            **_COMMON,
        },
        "channel",
        "to",
    ),
    "Batch": _object(
        {"messages": {"type": "array", "items": _reference("Message"), "maxItems": 1000}},
        "messages",
    ),
    "Confirmation": _object({"confirm": {"type": "boolean", "default": False}}),
    "Reason": _object({"reason": _TEXT}),
    "Accepted": _object(
        {
            "id": _ID,
            "state": {"const": "queued"},
            "url": _TEXT,
            "copies": {"type": "array", "items": _ID},
        },
        "id",
        "state",
        "url",
        "copies",
    ),
    "WouldAccept": _object(
        {
            "dry_run": {"const": True},
            "channel": _TEXT,
            "recipients": {"type": "integer"},
            "queue": _TEXT,
            "due_at": _MOMENT,
            "attachments": {"type": "integer"},
            "segments": {"type": "integer"},
        }
    ),
    "Results": _object(
        {
            "results": {
                "type": "array",
                "items": {
                    "oneOf": [_reference("Accepted"), _object({"error": _reference("Problem")})]
                },
            }
        },
        "results",
    ),
    "WouldAct": _object(
        {"dry_run": {"const": True}, "id": _ID, "would": _TEXT}, "dry_run", "id", "would"
    ),
    "NewTime": _object(
        {
            "send_at": {"type": "string", "format": "date-time", "description": "With an offset."},
            "version": {
                "type": "integer",
                "description": "As you last saw it: 409 if it changed since. Optional.",
            },
        },
        "send_at",
    ),
    "Rescheduled": {
        "oneOf": [
            _object({**_ACTED, "due_at": _MOMENT, "version": {"type": "integer"}}, "id", "due_at"),
            _reference("WouldAct"),
        ]
    },
    "Checked": {
        "oneOf": [
            _object({**_ACTED, "said": _TEXT}, "id", "said"),
            _reference("WouldAct"),
        ]
    },
    "Acted": _object({**_ACTED, "replaces": _ID}, "id", "state"),
    "Dispatch": _object(
        {
            "id": _ID,
            "state": _TEXT,
            "url": _TEXT,
            "channel": {"enum": ["email", "sms"]},
            "kind": _TEXT,
            "recipient": {"type": "string", "description": "Masked without recipient:reveal."},
            "provider": _TEXT,
            "provider_message_id": _TEXT,
            "attempts": {"type": "integer"},
            "error": _TEXT,
            "failure": _TEXT,
            "may_have_arrived": {"type": "boolean"},
            "due_at": _MOMENT,
            "expires_at": _MOMENT,
            "replaces": _MAYBE_ID,
            "replaced_by": _MAYBE_ID,
            "copy_of": _MAYBE_ID,
            "copies": {"type": "array", "items": _ID},
            "target": {"type": ["object", "null"]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "attachments": {"type": "array", "items": {"type": "object"}},
            "timeline": {"type": "array", "items": {"type": "object"}},
        },
        closed=False,
    ),
    "Page": _object(
        {
            "dispatches": {
                "type": "array",
                "items": {"type": "object", "description": "As Dispatch, without its timeline."},
            },
            "next": {"type": ["string", "null"], "description": "The cursor of the next page."},
        },
        "dispatches",
        "next",
    ),
    "Problem": _object(
        {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "detail": _TEXT,
            "errors": {
                "type": "array",
                "items": _object({"field": _TEXT, "message": _TEXT}, "field", "message"),
            },
        },
        "type",
        "title",
        "status",
        "detail",
    ),
}
