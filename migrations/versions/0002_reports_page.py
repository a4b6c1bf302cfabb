"""Indexes of the pages of reports and of suppressions: each holds only the few rows it is about."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

INDEXES = (
    ("ix_report_conflict", "report", ["received_at"], "outcome = 'conflict'"),
    ("ix_report_code", "report", ["provider", "code"], "code <> ''"),
    ("ix_attempt_code", "attempt", ["route", "code"], "code <> ''"),
    ("ix_suppression_newest", "suppression", ["created_at"], "lifted_at IS NULL"),
)


def upgrade() -> None:
    # Not under a lock that stops the workers: these tables are written all the time.
    with op.get_context().autocommit_block():
        for name, table, columns, condition in INDEXES:
            # What an interrupted run left is not valid, and would be taken for the index.
            op.drop_index(name, table_name=table, postgresql_concurrently=True, if_exists=True)
            op.create_index(
                name,
                table,
                columns,
                postgresql_where=sa.text(condition),
                postgresql_concurrently=True,
            )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name, table, _, _ in INDEXES:
            op.drop_index(name, table_name=table, postgresql_concurrently=True, if_exists=True)
