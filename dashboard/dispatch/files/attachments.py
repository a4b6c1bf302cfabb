"""Stored files: written by random key, read back only if they are what was stored.

A file's name never takes part in its path. Who may download one, and when it is deleted, is
decided elsewhere. A root such as `s3://bucket/folder` is reached through fsspec.
"""

import hashlib
import importlib
import logging
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any, BinaryIO

from dashboard.dispatch.files.models import Attachment
from dashboard.settings import Settings

logger = logging.getLogger("wireroom.files")

_KEY = re.compile(r"[0-9a-f]{32}")
_CHUNK = 1024 * 1024


class AttachmentError(Exception):
    """A stored file cannot be used; the message names it and says what to do."""


class AttachmentMissing(AttachmentError):
    """It is not there (any more)."""


class AttachmentChanged(AttachmentError):
    """It is there, and is not what was stored."""


def storage_root(settings: Settings) -> str:
    """Return where files are: a folder, or a URL that fsspec knows."""
    return settings.attachment_root or str(settings.data_dir / "attachments")


def store(content: bytes, settings: Settings) -> str:
    """Write a file under a new random key and return the key; it is on the disk afterwards.

    Raises:
        OSError: when it cannot be written; then nothing is left behind.
    """
    key = secrets.token_hex(16)
    if _is_remote(settings):
        with _remote(key, settings, "wb") as target:
            target.write(content)
        return key
    path = _path(key, settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{key}")
    try:
        with draft.open("xb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)
    return key


def remove(key: str, settings: Settings) -> None:
    """Delete a stored file, if it is there; one that cannot be deleted is left for the cleanup."""
    delete_stored(key, settings)


def delete_stored(key: str, settings: Settings) -> bool:
    """Delete a stored file and return whether it is gone; one that was not there is."""
    if not _KEY.fullmatch(key):
        return True
    try:
        if _is_remote(settings):
            filesystem, path = _filesystem(key, settings)
            filesystem.rm(path)
        else:
            _path(key, settings).unlink(missing_ok=True)
    except FileNotFoundError:
        return True
    except OSError:
        logger.warning("stored file not deleted", extra={"storage_key": key})
        return False
    return True


def sha256_of(content: bytes) -> str:
    """Return the hash under which a file is recorded."""
    return hashlib.sha256(content).hexdigest()


def read(attachment: Attachment, settings: Settings) -> bytes:
    """Return the content of a stored file, checked against its size and hash.

    Raises:
        AttachmentMissing, AttachmentChanged: naming the file.
    """
    with open_stored(attachment, settings) as source:
        content = source.read(attachment.size + 1)
    _compare(attachment, len(content), hashlib.sha256(content).hexdigest())
    return content


def verify(attachment: Attachment, settings: Settings) -> None:
    """Check a stored file against its size and hash, without keeping it in memory.

    Raises:
        AttachmentMissing, AttachmentChanged: naming the file.
    """
    digest, size = hashlib.sha256(), 0
    with open_stored(attachment, settings) as source:
        while size <= attachment.size and (piece := source.read(_CHUNK)):
            digest.update(piece)
            size += len(piece)
    _compare(attachment, size, digest.hexdigest())


def _compare(attachment: Attachment, size: int, sha256: str) -> None:
    if (size, sha256) != (attachment.size, attachment.sha256):
        raise AttachmentChanged(
            f"The file {attachment.filename} is not what was stored; nothing was sent with it."
            " Restore it from a backup, or send a new message with the file."
        )


@contextmanager
def open_stored(attachment: Attachment, settings: Settings) -> Iterator[BinaryIO]:
    """Open a stored file for reading; a link or anything outside the root counts as missing.

    Raises:
        AttachmentMissing: naming the file.
    """
    if attachment.deleted_at is not None or not _KEY.fullmatch(attachment.storage_key):
        raise _missing(attachment)
    try:
        with _open(attachment.storage_key, settings) as source:
            yield source
    except OSError as error:
        raise _missing(attachment) from error


def _missing(attachment: Attachment) -> AttachmentMissing:
    gone = f" (deleted on {attachment.deleted_at:%Y-%m-%d})" if attachment.deleted_at else ""
    return AttachmentMissing(
        f"The file {attachment.filename} is not there any more{gone}; nothing was sent without it."
        " Send a new message with the file."
    )


@contextmanager
def _open(key: str, settings: Settings) -> Iterator[BinaryIO]:
    if _is_remote(settings):
        with _remote(key, settings, "rb") as remote:
            yield remote
        return
    path = _path(key, settings)
    root = Path(storage_root(settings)).resolve()
    if path.parent.resolve() != root / key[:2]:
        raise FileNotFoundError(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as source:  # noqa: PTH123  an open descriptor
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(path)
        yield source


def _path(key: str, settings: Settings) -> Path:
    return Path(storage_root(settings)) / key[:2] / key


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_remote(settings: Settings) -> bool:
    return "://" in settings.attachment_root


def _filesystem(key: str, settings: Settings) -> tuple[Any, str]:
    # Imported where it is used: most installations keep files in a folder.
    fsspec_core = importlib.import_module("fsspec.core")
    filesystem, root = fsspec_core.url_to_fs(settings.attachment_root)
    return filesystem, f"{root.rstrip('/')}/{key[:2]}/{key}"


@contextmanager
def _remote(key: str, settings: Settings, mode: str) -> Iterator[Any]:
    filesystem, path = _filesystem(key, settings)
    if mode == "wb":
        filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
    with filesystem.open(path, mode) as file:
        yield file
