"""`wireroom reconcile`: one round of the reconciler now, from this machine's console.

Runs the very job of the timetable, found by its import path: `dashboard` never imports `jobs`.
"""

import importlib

import click
from sqlalchemy import select

from dashboard.commands.database import command_session
from dashboard.queueing.names import JobPath
from dashboard.workers.models import TaskRun


@click.command()
def reconcile() -> None:
    """Find and repair stalled, overdue and doubtful dispatches now, not at the next tick.

    The round is listed with those of the schedule. Exits with 1 when it could not be finished.
    """
    with command_session() as session:
        # Says in a sentence what is wrong, where there is no database, before the job would.
        session.execute(select(1))
    module, _, function = JobPath.RECONCILE.rpartition(".")
    getattr(importlib.import_module(module), function)()
    with command_session() as session:
        newest = select(TaskRun).where(TaskRun.task == "reconcile", TaskRun.due_at.is_(None))
        run = session.scalars(newest.order_by(TaskRun.started_at.desc()).limit(1)).one()
    click.echo(f"Found {run.found}, repaired {run.repaired}, skipped {run.skipped}.")
    if run.outcome != "done":
        raise click.ClickException("Its 20 s were over before its work; run it again for the rest.")
