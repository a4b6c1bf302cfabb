"""Permissions and roles: one enum, one table. Does not check anything: see `scope.py`."""

from enum import StrEnum
from types import MappingProxyType


class Permission(StrEnum):
    """Everything that somebody can be allowed to do; API tokens carry the same words."""

    DISPATCH_LIST = "dispatch:list"
    DISPATCH_READ = "dispatch:read"
    DISPATCH_CREATE = "dispatch:create"
    CONTENT_READ = "content:read"
    RECIPIENT_REVEAL = "recipient:reveal"
    DISPATCH_RETRY = "dispatch:retry"
    DISPATCH_CANCEL = "dispatch:cancel"
    DISPATCH_RESEND = "dispatch:resend"
    DISPATCH_CHECK = "dispatch:check"
    BULK_RUN = "bulk:run"
    ATTACHMENT_DOWNLOAD = "attachment:download"
    EXPORT_RUN = "export:run"
    WORKER_CHECK = "worker:check"
    ROUTE_PAUSE = "route:pause"
    SCHEDULE_RUN = "schedule:run"
    SUPPRESSION_LIFT = "suppression:lift"
    ACTIVITY_READ = "activity:read"
    ACCESS_MANAGE = "access:manage"


class Role(StrEnum):
    """What a grant gives."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    MAINTAINER = "maintainer"
    AUDITOR = "auditor"
    ADMINISTRATOR = "administrator"


_VIEWER = frozenset({Permission.DISPATCH_LIST, Permission.DISPATCH_READ})
_OPERATOR = _VIEWER | {
    Permission.CONTENT_READ,
    Permission.RECIPIENT_REVEAL,
    Permission.DISPATCH_RETRY,
    Permission.DISPATCH_CANCEL,
    Permission.DISPATCH_RESEND,
    Permission.DISPATCH_CHECK,
    Permission.ATTACHMENT_DOWNLOAD,
}
_MAINTAINER = _OPERATOR | {
    Permission.BULK_RUN,
    Permission.EXPORT_RUN,
    Permission.WORKER_CHECK,
    Permission.ROUTE_PAUSE,
    Permission.SCHEDULE_RUN,
    Permission.SUPPRESSION_LIFT,
    Permission.ACTIVITY_READ,
}

ROLES = MappingProxyType(
    {
        Role.VIEWER: _VIEWER,
        Role.OPERATOR: _OPERATOR,
        Role.MAINTAINER: _MAINTAINER,
        Role.AUDITOR: _VIEWER | {Permission.ACTIVITY_READ, Permission.EXPORT_RUN},
        Role.ADMINISTRATOR: frozenset(Permission),
    }
)
