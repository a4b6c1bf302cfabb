"""Outcomes that PostgreSQL could not take when a worker had to stop, on the disk of its host."""

import json
import logging
import os
import uuid
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from dashboard.dispatch.outcomes import Result
from dashboard.dispatch.states import Channel, Failure
from dashboard.providers.base import Outcome, OutcomeKind

logger = logging.getLogger("wireroom.worker")


def put(data_dir: Path, worker: str, results: Sequence[Result]) -> None:
    """Write outcomes to a file of this worker and wait until the disk has it."""
    folder = data_dir / "spool"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = folder / f".{worker}"
    with draft.open("w") as file:
        json.dump([asdict(one) for one in results], file, default=str)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(folder / f"{worker}.json")


def take(data_dir: Path) -> list[Result]:
    """Return what workers of this host left behind, and remove it; each file goes to one taker.

    A file that cannot be read is kept under `.unreadable` and said at error.
    """
    results: list[Result] = []
    for path in sorted((data_dir / "spool").glob("*.json")):
        mine = path.with_suffix(f".{os.getpid()}")
        try:
            path.rename(mine)
            results += [_result(one) for one in json.loads(mine.read_text())]
            mine.unlink()
        except FileNotFoundError:
            continue
        except (ValueError, KeyError, TypeError):
            mine.rename(path.with_suffix(".unreadable"))
            logger.exception("spooled outcomes unreadable", extra={"file": path.name})
    return results


def _result(content: dict[str, object]) -> Result:
    outcome = dict(content["outcome"])  # type: ignore[call-overload]  # JSON of asdict()
    outcome["kind"] = OutcomeKind(outcome["kind"])
    return Result(
        dispatch_id=uuid.UUID(str(content["dispatch_id"])),
        attempt_id=uuid.UUID(str(content["attempt_id"])),
        number=int(str(content["number"])),
        route=str(content["route"]),
        outcome=Outcome(**outcome),
        failure=Failure(str(content["failure"])),
        channel=Channel(str(content["channel"])),
    )
