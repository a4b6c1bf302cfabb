"""create_app(settings): the web application, its extensions, pages and error pages."""

from pathlib import Path

from flask import Flask
from jinja2 import StrictUndefined

import dashboard.dispatch.tables  # noqa: F401  relationships need every model
from dashboard import logs, pages
from dashboard.database import db, engine_options
from dashboard.providers.webhook_secrets import require_secrets
from dashboard.settings import Settings, current, use

ROOT = Path(__file__).resolve().parent.parent
EXTENSION = "wireroom"


def create_app(
    settings: Settings | None = None, *, engine: dict[str, object] | None = None
) -> Flask:
    """Return the application.

    Args:
        settings: this process's, read from the environment if not given.
        engine: engine options that replace the web's own (a worker waits longer, pools less).

    Raises:
        SettingsInvalid: in production, where reports could not be checked.
    """
    settings = settings or current()
    require_secrets(settings)
    use(settings)
    app = Flask(
        "wireroom", template_folder=str(ROOT / "templates"), static_folder=str(ROOT / "static")
    )
    app.config.from_mapping(
        SECRET_KEY=settings.secret_key.get_secret_value(),
        SQLALCHEMY_DATABASE_URI=settings.database_url,
        SQLALCHEMY_ENGINE_OPTIONS=engine
        or engine_options(pool_size=8, lock_timeout_ms=5000, statement_timeout_ms=15000),
    )
    app.extensions[EXTENSION] = settings
    app.jinja_env.undefined = StrictUndefined
    logs.configure(settings)
    db.init_app(app)
    pages.register(app, settings)
    return app
