"""The database: the declarative base, the Flask extension, the clock that all decisions use.

Does not define tables: see the `models` module of each room.
"""

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

import uuid_utils.compat
from flask_sqlalchemy import SQLAlchemy
from sqlalchemy import ColumnElement, DateTime, Enum, MetaData, Uuid, any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import DeclarativeBase, Session, registry, scoped_session
from sqlalchemy.types import TypeEngine

NAMING = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The base of every table; host applications find Wireroom's tables through its metadata."""

    # On the registry, not on the class: there Flask-SQLAlchemy 3.1 refuses it.
    registry = registry(
        metadata=MetaData(naming_convention=NAMING),
        type_annotation_map={
            datetime: DateTime(timezone=True),
            dict[str, str]: JSONB(),
            dict[str, Any]: JSONB(),
            list[str]: JSONB(),
            list[Any]: JSONB(),
        },
    )


db = SQLAlchemy(model_class=Base, session_options={"expire_on_commit": False})

# What the rooms take: a plain session of a host application, or Flask's scoped one.
AnySession = Session | scoped_session[Any]


def enum_column(values: type[StrEnum]) -> TypeEngine[Any]:
    """Return text with a check for an enum; a plain `String` would read back as `str`."""
    return Enum(
        values,
        native_enum=False,
        length=40,
        create_constraint=True,
        name=values.__name__.lower(),
        values_callable=lambda members: [member.value for member in members],
    )


def new_id() -> uuid.UUID:
    """Return a UUIDv7: sortable by time, made here (PostgreSQL has it only from 18 on)."""
    return uuid_utils.compat.uuid7()


def is_one_of(column: Any, ids: Iterable[uuid.UUID]) -> ColumnElement[bool]:
    """Return `column = ANY(ids)`: one parameter, so that the statement is compiled once."""
    condition: ColumnElement[bool] = column == any_(literal(list(ids), ARRAY(Uuid())))
    return condition


def database_now(session: AnySession) -> datetime:
    """Return the database's clock, which every decision and its stamp use."""
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now


def engine_options(
    *, pool_size: int, lock_timeout_ms: int, statement_timeout_ms: int
) -> Mapping[str, Any]:
    """Return engine options with the limits that keep one stuck row from holding a process.

    Args:
        pool_size: connections kept open.
        lock_timeout_ms: how long a statement waits for a row that somebody else holds.
        statement_timeout_ms: how long one statement may run.
    """
    return {
        "pool_size": pool_size,
        "max_overflow": pool_size,
        "pool_pre_ping": True,
        "pool_timeout": 5,
        "isolation_level": "READ COMMITTED",
        "connect_args": {
            "connect_timeout": 3,
            "application_name": "wireroom",
            "options": (
                f"-c lock_timeout={lock_timeout_ms} -c statement_timeout={statement_timeout_ms}"
                " -c idle_in_transaction_session_timeout=60000 -c timezone=UTC"
            ),
            "keepalives_idle": 10,
            "tcp_user_timeout": 10000,
        },
    }
