"""Indexes of the list for what is rare in it: the lesser channel, and what was cancelled."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

NEWEST = [sa.text("created_at DESC"), sa.text("id DESC")]
INDEXES = (
    ("ix_dispatch_by_channel", ["channel", *NEWEST], None),
    ("ix_dispatch_cancelled", NEWEST, sa.text("state = 'cancelled'")),
)


def upgrade() -> None:
    # Not under a lock that stops the workers: the table is written all the time.
    with op.get_context().autocommit_block():
        for name, columns, condition in INDEXES:
            # What an interrupted run left is not valid, and would be taken for the index.
            op.drop_index(name, table_name="dispatch", postgresql_concurrently=True, if_exists=True)
            op.create_index(
                name,
                "dispatch",
                columns,
                postgresql_where=condition,
                postgresql_concurrently=True,
            )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        for name, _, _ in INDEXES:
            op.drop_index(name, table_name="dispatch", postgresql_concurrently=True, if_exists=True)
