"""Stored files come back only if they are what was stored."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dashboard.dispatch.files.attachments import (
    AttachmentChanged,
    AttachmentMissing,
    read,
    remove,
    sha256_of,
    store,
    verify,
)
from dashboard.dispatch.files.models import Attachment
from dashboard.settings import Settings, load_settings

CONTENT = b"%PDF-1.7 \x00\xff" * 1000


@pytest.fixture(params=["folder", "memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    root = str(tmp_path / "files") if request.param == "folder" else f"memory://{tmp_path}"
    return load_settings(_env_file=None, data_dir=tmp_path, attachment_root=root)


@pytest.fixture
def folder(tmp_path: Path) -> Settings:
    return load_settings(_env_file=None, data_dir=tmp_path)


def record(settings: Settings, content: bytes = CONTENT) -> Attachment:
    return Attachment(
        filename="отчёт Q4.pdf",
        content_type="application/pdf",
        size=len(content),
        sha256=sha256_of(content),
        storage_key=store(content, settings),
    )


def path_of(attachment: Attachment, settings: Settings) -> Path:
    key = attachment.storage_key
    return settings.data_dir / "attachments" / key[:2] / key


def test_a_file_comes_back_byte_for_byte(storage: Settings) -> None:
    attachment = record(storage)

    assert read(attachment, storage) == CONTENT
    verify(attachment, storage)


def test_a_removed_file_is_missing_and_named(storage: Settings) -> None:
    attachment = record(storage)
    remove(attachment.storage_key, storage)
    remove(attachment.storage_key, storage)

    for use in (read, verify):
        with pytest.raises(AttachmentMissing, match=r"отчёт Q4\.pdf is not there any more"):
            use(attachment, storage)


def test_a_deleted_file_says_when(folder: Settings) -> None:
    attachment = record(folder)
    attachment.deleted_at = datetime(2026, 11, 30, tzinfo=UTC)

    with pytest.raises(AttachmentMissing, match="deleted on 2026-11-30"):
        read(attachment, folder)


@pytest.mark.parametrize("content", [CONTENT[:-1], CONTENT + b"x", b"X" + CONTENT[1:], b""])
def test_a_changed_file_is_not_used(folder: Settings, content: bytes) -> None:
    attachment = record(folder)
    path_of(attachment, folder).write_bytes(content)

    for use in (read, verify):
        with pytest.raises(AttachmentChanged, match=r"отчёт Q4\.pdf is not what was stored"):
            use(attachment, folder)


def test_a_link_is_not_followed(folder: Settings, tmp_path: Path) -> None:
    attachment = record(folder)
    elsewhere = tmp_path / "elsewhere"
    path_of(attachment, folder).rename(elsewhere)
    path_of(attachment, folder).symlink_to(elsewhere)

    with pytest.raises(AttachmentMissing):
        read(attachment, folder)


def test_a_linked_folder_is_not_followed(folder: Settings, tmp_path: Path) -> None:
    attachment = record(folder)
    parent = path_of(attachment, folder).parent
    parent.rename(tmp_path / "elsewhere")
    parent.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(AttachmentMissing):
        read(attachment, folder)


@pytest.mark.parametrize("key", ["../../etc/passwd", "/etc/passwd", "", "a" * 31, "A" * 32])
def test_a_key_is_never_a_path(folder: Settings, key: str) -> None:
    attachment = record(folder)
    attachment.storage_key = key

    with pytest.raises(AttachmentMissing):
        read(attachment, folder)


def test_a_file_that_cannot_be_written_leaves_nothing(
    folder: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_self: Path, _target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)

    with pytest.raises(OSError, match="No space"):
        store(CONTENT, folder)
    root = folder.data_dir / "attachments"
    assert [path for path in root.rglob("*") if path.is_file()] == []
