"""The pages and the API: one module for each page, routes of at most ten lines."""

from flask import Blueprint, Flask

from dashboard.pages import (
    api,
    assets,
    dispatches,
    errors,
    health,
    live,
    preferences,
    presentation,
    presses,
    preview,
    reports,
    sandbox,
    security,
    sign_in,
    suppressions,
    webhooks,
)
from dashboard.settings import Settings

# Every page's blueprint; a page that is not here does not exist. Sign-in adds its own.
BLUEPRINTS: tuple[Blueprint, ...] = (
    api.blueprint,
    health.blueprint,
    webhooks.blueprint,
    dispatches.blueprint,
    presses.blueprint,
    preview.blueprint,
    reports.blueprint,
    suppressions.blueprint,
    preferences.blueprint,
    sandbox.blueprint,
)

for _one in (dispatches.blueprint, presses.blueprint):
    live.vary(_one)


def register(app: Flask, settings: Settings) -> None:
    """Add every page, the API and what surrounds them (headers, errors) to an application."""
    app.extensions["wireroom"] = settings
    security.init_app(app, settings)
    sign_in.init_app(app, settings)
    assets.register(app)
    presentation.register(app, settings)
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
    errors.register(app)
