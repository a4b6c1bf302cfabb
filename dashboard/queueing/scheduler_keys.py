"""The names of what the scheduler keeps in Redis, and the ids of its jobs.

RQ allows only letters, digits, `-` and `_` in job ids.
"""

SEEN = "wireroom:scheduler:seen"
EPOCH = "wireroom:scheduler:epoch"
EPOCH_PENDING = "wireroom:scheduler:epoch-pending"
DECLARED = "wireroom:scheduler:declared"
CHILDREN = "wireroom:scheduler:children"
QUARANTINE = "wireroom:scheduler:quarantine"

_TEMPLATE_PREFIX = "wireroom-"
_CHILD_SEPARATOR = "--"


def alive_key(scheduler_id: str) -> str:
    """Return the key that expires when this scheduler has not been heard of for 10 s."""
    return f"wireroom:scheduler:{scheduler_id}"


def template_id(task_name: str) -> str:
    """Return the id of the job that a task's runs are copied from; it is never enqueued itself."""
    return f"{_TEMPLATE_PREFIX}{task_name}"


def child_id(template: str, due: float) -> str:
    """Return the id of the one run of a template that was due then (to the millisecond)."""
    return f"{template}{_CHILD_SEPARATOR}{round(due * 1000)}"


def due_of_child(child: str) -> float:
    """Return when a run was due, in seconds since 1970; raises ValueError for other ids."""
    return int(child.rpartition(_CHILD_SEPARATOR)[2]) / 1000
