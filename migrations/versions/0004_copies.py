"""An index of copies: the page of a dispatch names them, and deleting one looks for them."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

NAME = "ix_dispatch_copies"


def upgrade() -> None:
    # Not under a lock that stops the workers: the table is written all the time.
    with op.get_context().autocommit_block():
        # What an interrupted run left is not valid, and would be taken for the index.
        op.drop_index(NAME, table_name="dispatch", postgresql_concurrently=True, if_exists=True)
        op.create_index(
            NAME,
            "dispatch",
            ["copy_of_id"],
            postgresql_where=sa.text("copy_of_id IS NOT NULL"),
            postgresql_concurrently=True,
        )


def downgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index(NAME, table_name="dispatch", postgresql_concurrently=True, if_exists=True)
