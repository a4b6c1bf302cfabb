"""Reads the attachments of an untrusted request: names, types, content, content ids. Pure."""

import base64
import binascii
import re
import uuid
from collections.abc import Mapping

from dashboard.dispatch.request.fields import MISSING, Fields
from dashboard.dispatch.request.requests import NewFile, StoredFile

MOST_FILES = 30
NAME_OCTETS = 255
UNKNOWN_TYPE = "application/octet-stream"
_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]{1,60}/[A-Za-z0-9!#$&^_.+-]{1,80}")
_CONTENT_ID = re.compile(r"[!-;=?-~]{1,200}")
_NEW = frozenset({"filename", "content_type", "content", "inline", "content_id"})
_STORED = frozenset({"id", "inline", "content_id"})


def read_files(fields: Fields, name: str, max_bytes: int) -> tuple[NewFile | StoredFile, ...]:
    """Read a list of files: objects with content, or ids of uploaded ones.

    Args:
        max_bytes: the most that one file, and all new ones together, may have.
    """
    files = []
    for index, value in enumerate(fields.items(name, most=MOST_FILES)):
        place = f"{name}[{index}]"
        if isinstance(value, NewFile):
            value = {entry: getattr(value, entry) for entry in _NEW}
        if isinstance(value, str | uuid.UUID):
            value = {"id": str(value)}
        if not isinstance(value, Mapping):
            fields.wrong(place, "Give an object with filename and content, or the id of a file.")
            continue
        inner = Fields(value, fields.problems, f"{fields.prefix}{place}.")
        read = _stored(inner) if "id" in value else new_file(inner, max_bytes)
        if read is not None:
            files.append(read)
    if sum(len(file.content) for file in files if isinstance(file, NewFile)) > max_bytes:
        fields.wrong(name, f"Together they have more than {max_bytes} octets.")
    return tuple(files)


def _stored(fields: Fields) -> StoredFile | None:
    fields.refuse_unknown(_STORED)
    inline, content_id = _placement(fields)
    try:
        return StoredFile(uuid.UUID(fields.line("id", octets=40)), inline, content_id)
    except ValueError:
        fields.wrong("id", "It is not the id of an uploaded file.")
        return None


def new_file(fields: Fields, max_bytes: int) -> NewFile | None:
    """Read one file with its content; problems are noted with the field, then it is None."""
    before = len(fields.problems)
    fields.refuse_unknown(_NEW)
    filename = _filename(fields)
    inline, content_id = _placement(fields)
    content = _content(fields, max_bytes)
    content_type = _content_type(fields)
    if len(fields.problems) > before:
        return None
    return NewFile(filename, content_type, content, inline, content_id)


def _filename(fields: Fields) -> str:
    filename = fields.name("filename", required=True, octets=NAME_OCTETS)
    if re.search(r"[/\\]", filename) or filename.strip() in (".", "..") or filename[1:2] == ":":
        fields.wrong("filename", "Give a name, not a path: no separators, drive, . or ..")
    return filename.strip()


def _content_type(fields: Fields) -> str:
    """Read a type; one that is none becomes the neutral one, parameters are dropped."""
    given = fields.line("content_type", octets=NAME_OCTETS).partition(";")[0].strip().lower()
    return given if _TYPE.fullmatch(given) else UNKNOWN_TYPE


def _placement(fields: Fields) -> tuple[bool, str]:
    """Read whether a file is inline, and the content id that the HTML names it by."""
    inline = fields.flag("inline")
    content_id = fields.line("content_id", octets=200)
    if content_id and not _CONTENT_ID.fullmatch(content_id):
        fields.wrong(
            "content_id", "Give it without brackets and spaces, as after cid: in the HTML."
        )
    if inline and not fields.values.get("content_id"):
        fields.wrong("content_id", "An inline file needs one: what stands after cid: in the HTML.")
    return inline or bool(content_id), content_id


def _content(fields: Fields, max_bytes: int) -> bytes:
    given = fields.values.get("content")
    if given is None:
        fields.wrong("content", MISSING)
        return b""
    content = given if isinstance(given, bytes) else _decoded(fields, given, max_bytes)
    if content is None:
        return b""
    if not content:
        fields.wrong("content", "It is empty (zero octets), which providers refuse; leave it out.")
    if len(content) > max_bytes:
        fields.wrong("content", f"It has {len(content)} octets; at most {max_bytes} are possible.")
    return content


def _decoded(fields: Fields, given: object, max_bytes: int) -> bytes | None:
    if not isinstance(given, str) or not given.isascii():
        fields.wrong("content", "Give the content as base64 text.")
        return None
    if len(given) > 4 * (max_bytes // 3 + 1) + 4:
        fields.wrong("content", f"It is too large; at most {max_bytes} octets are possible.")
        return None
    try:
        return base64.b64decode(given, validate=True)
    except binascii.Error:
        fields.wrong("content", "It is not valid base64 (RFC 4648, padded, no line breaks).")
        return None
