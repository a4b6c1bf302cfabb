"""The first tables."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.execute("CREATE EXTENSION IF NOT EXISTS pg_trgm")
    op.create_table(
        "bulk",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("filters", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("stopped_by", sa.String(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("pace_per_second", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bulk")),
    )
    op.create_table(
        "heartbeat",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("sentry", sa.Boolean(), nullable=False),
        sa.Column(
            "asked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_heartbeat")),
    )
    op.create_index(
        "ix_heartbeat_latest_of_queue", "heartbeat", ["queue", "asked_at"], unique=False
    )
    op.create_table(
        "report_key",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("report_id", sa.Uuid(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_report_key")),
    )
    op.create_index(op.f("ix_report_key_report_id"), "report_key", ["report_id"], unique=False)
    op.create_table(
        "route_pause",
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column(
            "paused_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("probed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("probe_detail", sa.String(), nullable=False),
        sa.Column("probes", sa.Boolean(), nullable=False),
        sa.Column("resumed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("trial_id", sa.Uuid(), nullable=True),
        sa.PrimaryKeyConstraint("route", name=op.f("pk_route_pause")),
    )
    op.create_table(
        "source",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("email_from", sa.String(), nullable=False),
        sa.Column("sms_from", sa.String(), nullable=False),
        sa.Column("rate_per_second", sa.Double(), nullable=True),
        sa.Column("daily_cap", sa.Integer(), nullable=True),
        sa.Column("unknown_outcome_email", sa.String(), nullable=False),
        sa.Column("unknown_outcome_sms", sa.String(), nullable=False),
        sa.Column("report_callback_url", sa.String(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_source")),
        sa.UniqueConstraint("name", name=op.f("uq_source_name")),
    )
    op.create_table(
        "task_run",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("task", sa.String(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("found", sa.Integer(), nullable=False),
        sa.Column("repaired", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_task_run")),
    )
    op.create_index("ix_task_run_latest", "task_run", ["task", "started_at"], unique=False)
    op.create_table(
        "task_status",
        sa.Column("task", sa.String(), nullable=False),
        sa.Column("last_success_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_failure_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("task", name=op.f("pk_task_status")),
    )
    op.create_table(
        "user",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("password_hash", sa.String(), nullable=False),
        sa.Column("totp_secret", sa.String(), nullable=False),
        sa.Column("oidc_subject", sa.String(), nullable=True),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("theme", sa.String(), nullable=False),
        sa.Column("time_zone", sa.String(), nullable=False),
        sa.Column("preferences", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user")),
        sa.UniqueConstraint("email", name=op.f("uq_user_email")),
        sa.UniqueConstraint("oidc_subject", name=op.f("uq_user_oidc_subject")),
    )
    op.create_table(
        "worker",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("queues", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("version", sa.String(), nullable=False),
        sa.Column("fingerprint", sa.String(), nullable=False),
        sa.Column("sentry", sa.Boolean(), nullable=False),
        sa.Column(
            "started_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("stopped_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("clock_ahead_seconds", sa.Double(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker")),
        sa.UniqueConstraint("name", name=op.f("uq_worker_name")),
    )
    op.create_index(op.f("ix_worker_seen_at"), "worker", ["seen_at"], unique=False)
    op.create_table(
        "activity",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("via", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject_type", sa.String(), nullable=False),
        sa.Column("subject_id", sa.String(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("details", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_activity_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_activity")),
    )
    op.create_index("ix_activity_newest", "activity", ["at", "id"], unique=False)
    op.create_index("ix_activity_subject", "activity", ["subject_type", "subject_id"], unique=False)
    op.create_table(
        "api_token",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("prefix", sa.String(), nullable=False),
        sa.Column("permissions", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_api_token_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_token")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_api_token_token_hash")),
    )
    op.create_table(
        "attachment",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("filename", sa.String(), nullable=False),
        sa.Column("content_type", sa.String(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("sha256", sa.String(), nullable=False),
        sa.Column("storage_key", sa.String(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_attachment_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachment")),
    )
    op.create_index(op.f("ix_attachment_source_id"), "attachment", ["source_id"], unique=False)
    op.create_table(
        "bulk_item",
        sa.Column("bulk_id", sa.Uuid(), nullable=False),
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("result_id", sa.Uuid(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["bulk_id"], ["bulk.id"], name=op.f("fk_bulk_item_bulk_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("bulk_id", "dispatch_id", name=op.f("pk_bulk_item")),
    )
    op.create_table(
        "dispatch",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column(
            "channel",
            sa.Enum(
                "email", "sms", name="channel", native_enum=False, create_constraint=True, length=40
            ),
            nullable=False,
        ),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("args", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "sending",
                "awaiting",
                "delayed",
                "stalled",
                "errored",
                "sent",
                "succeeded",
                "unconfirmed",
                "cancelled",
                name="state",
                native_enum=False,
                create_constraint=True,
                length=40,
            ),
            nullable=False,
        ),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("sender", sa.String(), nullable=False),
        sa.Column("recipient", sa.String(), nullable=False),
        sa.Column("recipient_normalised", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("search_text", sa.String(), nullable=False),
        sa.Column("target_type", sa.String(), nullable=False),
        sa.Column("target_id", sa.String(), nullable=False),
        sa.Column("labels", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("requested_by", sa.String(), nullable=False),
        sa.Column(
            "requested_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column(
            "due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column(
            "next_step",
            sa.Enum(
                "send",
                "look_up",
                name="nextstep",
                native_enum=False,
                create_constraint=True,
                length=40,
            ),
            nullable=False,
        ),
        sa.Column(
            "hold",
            sa.Enum(
                "",
                "route",
                "rate",
                "quiet",
                "backfill",
                name="hold",
                native_enum=False,
                create_constraint=True,
                length=40,
            ),
            nullable=False,
        ),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cancel_noted_by", sa.String(), nullable=False),
        sa.Column("cancel_noted_reason", sa.String(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("attempts_before_retry", sa.Integer(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("losses", sa.Integer(), nullable=False),
        sa.Column("stalls", sa.Integer(), nullable=False),
        sa.Column("stalled_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column(
            "failure",
            sa.Enum(
                "",
                "publish",
                "refused",
                "report",
                "exhausted",
                "lost",
                "expired",
                "bug",
                "suppressed",
                name="failure",
                native_enum=False,
                create_constraint=True,
                length=40,
            ),
            nullable=False,
        ),
        sa.Column("permanent", sa.Boolean(), nullable=False),
        sa.Column("maybe_sent", sa.Boolean(), nullable=False),
        sa.Column("proven", sa.Boolean(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column("provider_message_id", sa.String(), nullable=False),
        sa.Column("complained", sa.Boolean(), nullable=False),
        sa.Column("acknowledged_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("acknowledged_by", sa.String(), nullable=False),
        sa.Column("delivered_attempt", sa.Integer(), nullable=True),
        sa.Column("idempotency", sa.String(), nullable=False),
        sa.Column("file_count", sa.Integer(), nullable=False),
        sa.Column("copy_of_id", sa.Uuid(), nullable=True),
        sa.Column("replaced_by_id", sa.Uuid(), nullable=True),
        sa.Column("replaces_id", sa.Uuid(), nullable=True),
        sa.Column("next_poll_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "updated_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["copy_of_id"], ["dispatch.id"], name=op.f("fk_dispatch_copy_of_id")
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_dispatch_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dispatch")),
    )
    op.create_index(
        "ix_dispatch_awaiting",
        "dispatch",
        ["finished_at"],
        unique=False,
        postgresql_where=sa.text("state = 'awaiting'"),
    )
    op.create_index(
        "ix_dispatch_by_state",
        "dispatch",
        ["state", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
        postgresql_where=sa.text("state NOT IN ('succeeded', 'cancelled', 'sent')"),
    )
    op.create_index(
        "ix_dispatch_claimed",
        "dispatch",
        ["queue", sa.literal_column("started_at DESC")],
        unique=False,
    )
    op.create_index(
        "ix_dispatch_labels", "dispatch", ["labels"], unique=False, postgresql_using="gin"
    )
    op.create_index(
        "ix_dispatch_newest",
        "dispatch",
        [sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index(
        "ix_dispatch_provider_message", "dispatch", ["provider_message_id"], unique=False
    )
    op.create_index(
        "ix_dispatch_recipient",
        "dispatch",
        ["recipient_normalised", sa.literal_column("created_at DESC")],
        unique=False,
    )
    op.create_index(
        "ix_dispatch_release",
        "dispatch",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text(
            "state IN ('queued', 'delayed', 'stalled') AND published_at IS NULL"
        ),
    )
    op.create_index(
        "ix_dispatch_search",
        "dispatch",
        ["search_text"],
        unique=False,
        postgresql_using="gin",
        postgresql_ops={"search_text": "gin_trgm_ops"},
    )
    op.create_index(
        "ix_dispatch_sending",
        "dispatch",
        ["started_at"],
        unique=False,
        postgresql_where=sa.text("state = 'sending'"),
    )
    op.create_index(
        "ix_dispatch_source",
        "dispatch",
        ["source_id", sa.literal_column("created_at DESC"), sa.literal_column("id DESC")],
        unique=False,
    )
    op.create_index(
        "ix_dispatch_target",
        "dispatch",
        ["target_type", "target_id", sa.literal_column("created_at DESC")],
        unique=False,
    )
    op.create_index(
        "ix_dispatch_waiting",
        "dispatch",
        ["queue", "due_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'delayed', 'stalled')"),
    )
    op.create_table(
        "grant",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column(
            "role",
            sa.Enum(
                "viewer",
                "operator",
                "maintainer",
                "auditor",
                "administrator",
                name="role",
                native_enum=False,
                create_constraint=True,
                length=40,
            ),
            nullable=False,
        ),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_grant_source_id")),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_grant_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grant")),
        sa.UniqueConstraint("user_id", "role", "source_id", name=op.f("uq_grant_user_id")),
    )
    op.create_table(
        "idempotency",
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("body_hash", sa.String(), nullable=False),
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("copies", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source.id"], name=op.f("fk_idempotency_source_id")
        ),
        sa.PrimaryKeyConstraint("source_id", "key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_created_at"), "idempotency", ["created_at"], unique=False)
    op.create_table(
        "session",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("user_id", sa.Uuid(), nullable=False),
        sa.Column("address", sa.String(), nullable=False),
        sa.Column("user_agent", sa.String(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "seen_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["user.id"], name=op.f("fk_session_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_session")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_session_token_hash")),
    )
    op.create_index(op.f("ix_session_user_id"), "session", ["user_id"], unique=False)
    op.create_table(
        "setup_link",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("email", sa.String(), nullable=False),
        sa.Column("role", sa.String(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["source_id"], ["source.id"], name=op.f("fk_setup_link_source_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_setup_link")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_setup_link_token_hash")),
    )
    op.create_table(
        "suppression",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("source_id", sa.Uuid(), nullable=True),
        sa.Column(
            "channel",
            sa.Enum(
                "email", "sms", name="channel", native_enum=False, create_constraint=True, length=40
            ),
            nullable=False,
        ),
        sa.Column("recipient_normalised", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("dispatch_id", sa.Uuid(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("lifted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("lifted_by", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["source_id"], ["source.id"], name=op.f("fk_suppression_source_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_suppression")),
        sa.UniqueConstraint(
            "source_id", "channel", "recipient_normalised", name=op.f("uq_suppression_source_id")
        ),
    )
    op.create_table(
        "attempt",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("worker", sa.String(), nullable=False),
        sa.Column("queue", sa.String(), nullable=False),
        sa.Column("claimed_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("published_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("handed_over_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "outcome",
            sa.Enum(
                "accepted",
                "transient",
                "permanent",
                "config",
                "unknown",
                name="outcomekind",
                native_enum=False,
                create_constraint=True,
                length=40,
            ),
            nullable=True,
        ),
        sa.Column("lost", sa.Boolean(), nullable=False),
        sa.Column("evidence", sa.Integer(), nullable=False),
        sa.Column("no_report", sa.Boolean(), nullable=False),
        sa.Column("route", sa.String(), nullable=False),
        sa.Column("idempotency", sa.String(), nullable=False),
        sa.Column("provider_message_id", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("detail", sa.String(), nullable=False),
        sa.Column("retry_after_seconds", sa.Double(), nullable=True),
        sa.Column("look_ups", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dispatch_id"],
            ["dispatch.id"],
            name=op.f("fk_attempt_dispatch_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempt")),
        sa.UniqueConstraint("dispatch_id", "number", name=op.f("uq_attempt_dispatch_id")),
    )
    op.create_index("ix_attempt_claimed", "attempt", ["queue", "claimed_at"], unique=False)
    op.create_index(
        "ix_attempt_provider_message", "attempt", ["provider_message_id", "route"], unique=False
    )
    op.create_table(
        "dispatch_attachment",
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("attachment_id", sa.Uuid(), nullable=False),
        sa.Column("inline", sa.Boolean(), nullable=False),
        sa.Column("content_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attachment_id"], ["attachment.id"], name=op.f("fk_dispatch_attachment_attachment_id")
        ),
        sa.ForeignKeyConstraint(
            ["dispatch_id"],
            ["dispatch.id"],
            name=op.f("fk_dispatch_attachment_dispatch_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dispatch_id", "position", name=op.f("pk_dispatch_attachment")),
    )
    op.create_index(
        op.f("ix_dispatch_attachment_attachment_id"),
        "dispatch_attachment",
        ["attachment_id"],
        unique=False,
    )
    op.create_table(
        "email_content",
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("html", sa.String(), nullable=False),
        sa.Column("to", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("cc", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("reply_to", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("headers", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("message_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dispatch_id"],
            ["dispatch.id"],
            name=op.f("fk_email_content_dispatch_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dispatch_id", name=op.f("pk_email_content")),
    )
    op.create_table(
        "replacement",
        sa.Column("replaced_id", sa.Uuid(), nullable=False),
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["dispatch_id"], ["dispatch.id"], name=op.f("fk_replacement_dispatch_id")
        ),
        sa.ForeignKeyConstraint(
            ["replaced_id"], ["dispatch.id"], name=op.f("fk_replacement_replaced_id")
        ),
        sa.PrimaryKeyConstraint("replaced_id", name=op.f("pk_replacement")),
    )
    op.create_index(
        op.f("ix_replacement_dispatch_id"), "replacement", ["dispatch_id"], unique=False
    )
    op.create_table(
        "report",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("provider", sa.String(), nullable=False),
        sa.Column(
            "received_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("occurred_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("event", sa.String(), nullable=False),
        sa.Column("provider_message_id", sa.String(), nullable=False),
        sa.Column("tracking", sa.String(), nullable=False),
        sa.Column("recipient", sa.String(), nullable=False),
        sa.Column("reason", sa.String(), nullable=False),
        sa.Column("code", sa.String(), nullable=False),
        sa.Column("permanent", sa.Boolean(), nullable=False),
        sa.Column("raw", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("dispatch_id", sa.Uuid(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column(
            "outcome",
            sa.Enum(
                "pending",
                "applied",
                "ignored",
                "duplicate",
                "unmatched",
                "conflict",
                name="reportoutcome",
                native_enum=False,
                create_constraint=True,
                length=40,
            ),
            nullable=False,
        ),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dispatch_id"], ["dispatch.id"], name=op.f("fk_report_dispatch_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_report")),
    )
    op.create_index(
        "ix_report_latest_of_provider",
        "report",
        ["provider", sa.literal_column("received_at DESC")],
        unique=False,
    )
    op.create_index("ix_report_of_dispatch", "report", ["dispatch_id", "received_at"], unique=False)
    op.create_index(
        "ix_report_to_match",
        "report",
        ["received_at"],
        unique=False,
        postgresql_where=sa.text("outcome IN ('pending', 'unmatched')"),
    )
    op.create_table(
        "sms_content",
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("body", sa.String(), nullable=False),
        sa.Column("media_urls", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("segments", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dispatch_id"],
            ["dispatch.id"],
            name=op.f("fk_sms_content_dispatch_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dispatch_id", name=op.f("pk_sms_content")),
    )
    op.create_table(
        "transition",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("dispatch_id", sa.Uuid(), nullable=False),
        sa.Column("state_from", sa.String(), nullable=False),
        sa.Column("state_to", sa.String(), nullable=False),
        sa.Column("trigger", sa.String(), nullable=False),
        sa.Column(
            "at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.Column("actor", sa.String(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("note", sa.String(), nullable=False),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dispatch_id"],
            ["dispatch.id"],
            name=op.f("fk_transition_dispatch_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_transition")),
    )
    op.create_index("ix_transition_of_dispatch", "transition", ["dispatch_id", "id"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_transition_of_dispatch", table_name="transition")
    op.drop_table("transition")
    op.drop_table("sms_content")
    op.drop_index(
        "ix_report_to_match",
        table_name="report",
        postgresql_where=sa.text("outcome IN ('pending', 'unmatched')"),
    )
    op.drop_index("ix_report_of_dispatch", table_name="report")
    op.drop_index("ix_report_latest_of_provider", table_name="report")
    op.drop_table("report")
    op.drop_index(op.f("ix_replacement_dispatch_id"), table_name="replacement")
    op.drop_table("replacement")
    op.drop_table("email_content")
    op.drop_index(op.f("ix_dispatch_attachment_attachment_id"), table_name="dispatch_attachment")
    op.drop_table("dispatch_attachment")
    op.drop_index("ix_attempt_provider_message", table_name="attempt")
    op.drop_index("ix_attempt_claimed", table_name="attempt")
    op.drop_table("attempt")
    op.drop_table("suppression")
    op.drop_table("setup_link")
    op.drop_index(op.f("ix_session_user_id"), table_name="session")
    op.drop_table("session")
    op.drop_index(op.f("ix_idempotency_created_at"), table_name="idempotency")
    op.drop_table("idempotency")
    op.drop_table("grant")
    op.drop_index(
        "ix_dispatch_waiting",
        table_name="dispatch",
        postgresql_where=sa.text("state IN ('queued', 'delayed', 'stalled')"),
    )
    op.drop_index("ix_dispatch_target", table_name="dispatch")
    op.drop_index("ix_dispatch_source", table_name="dispatch")
    op.drop_index(
        "ix_dispatch_sending", table_name="dispatch", postgresql_where=sa.text("state = 'sending'")
    )
    op.drop_index(
        "ix_dispatch_search",
        table_name="dispatch",
        postgresql_using="gin",
        postgresql_ops={"search_text": "gin_trgm_ops"},
    )
    op.drop_index(
        "ix_dispatch_release",
        table_name="dispatch",
        postgresql_where=sa.text(
            "state IN ('queued', 'delayed', 'stalled') AND published_at IS NULL"
        ),
    )
    op.drop_index("ix_dispatch_recipient", table_name="dispatch")
    op.drop_index("ix_dispatch_provider_message", table_name="dispatch")
    op.drop_index("ix_dispatch_newest", table_name="dispatch")
    op.drop_index("ix_dispatch_labels", table_name="dispatch", postgresql_using="gin")
    op.drop_index("ix_dispatch_claimed", table_name="dispatch")
    op.drop_index(
        "ix_dispatch_by_state",
        table_name="dispatch",
        postgresql_where=sa.text("state NOT IN ('succeeded', 'cancelled', 'sent')"),
    )
    op.drop_index(
        "ix_dispatch_awaiting",
        table_name="dispatch",
        postgresql_where=sa.text("state = 'awaiting'"),
    )
    op.drop_table("dispatch")
    op.drop_table("bulk_item")
    op.drop_index(op.f("ix_attachment_source_id"), table_name="attachment")
    op.drop_table("attachment")
    op.drop_table("api_token")
    op.drop_index("ix_activity_subject", table_name="activity")
    op.drop_index("ix_activity_newest", table_name="activity")
    op.drop_table("activity")
    op.drop_index(op.f("ix_worker_seen_at"), table_name="worker")
    op.drop_table("worker")
    op.drop_table("user")
    op.drop_table("task_status")
    op.drop_index("ix_task_run_latest", table_name="task_run")
    op.drop_table("task_run")
    op.drop_table("source")
    op.drop_table("route_pause")
    op.drop_index(op.f("ix_report_key_report_id"), table_name="report_key")
    op.drop_table("report_key")
    op.drop_index("ix_heartbeat_latest_of_queue", table_name="heartbeat")
    op.drop_table("heartbeat")
    op.drop_table("bulk")
