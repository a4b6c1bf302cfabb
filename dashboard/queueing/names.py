"""The queues, and the import paths of the jobs that are put on them.

`dashboard` never imports `jobs`: it names each job by its path, and a test resolves every one.
"""

from enum import StrEnum


class Queue(StrEnum):
    """The queues, each with a worker in the README's run table."""

    HIGH = "high"
    DEFAULT = "default"
    BULK = "bulk"
    CLOCK = "clock"
    MAINTENANCE = "maintenance"


SENDING_QUEUES = (Queue.HIGH, Queue.DEFAULT, Queue.BULK)


class JobPath(StrEnum):
    """Every job of ours, by import path."""

    SEND = "jobs.send.run"
    RELEASE = "jobs.release.run"
    RECONCILE = "jobs.reconcile.run"
    POLL_REPORTS = "jobs.poll_reports.run"
    MATCH_REPORTS = "jobs.match_reports.run"
    PRUNE = "jobs.prune.run"
    PRUNE_FILES = "jobs.prune.run_files"
