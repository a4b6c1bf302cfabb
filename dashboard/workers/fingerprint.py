"""The fingerprint of the code that a process has loaded, taken at its start."""

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from dashboard.settings import current

ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """Return 12 hex digits over the sources of dashboard, jobs and the registered kinds.

    Taken once per process: afterwards the files on disk may be of another release.
    """
    digest = hashlib.sha256()
    for path in [*_own_files(), *_kind_files()]:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _own_files() -> list[Path]:
    return sorted(path for room in ("dashboard", "jobs") for path in (ROOT / room).rglob("*.py"))


def _kind_files() -> list[Path]:
    names = [name.strip() for name in current().kinds.split(",") if name.strip()]
    specs = [find_spec(name) for name in names]
    return [Path(spec.origin) for spec in specs if spec is not None and spec.origin]
