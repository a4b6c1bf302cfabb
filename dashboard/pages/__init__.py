"""The pages and the API: one module for each page, routes of at most ten lines."""

from flask import Blueprint, Flask

from dashboard.pages import api, health, webhooks
from dashboard.settings import Settings

# Every page's blueprint; a page that is not here does not exist.
BLUEPRINTS: tuple[Blueprint, ...] = (api.blueprint, health.blueprint, webhooks.blueprint)


def register(app: Flask, settings: Settings) -> None:
    """Add every page, the API and what surrounds them (headers, errors) to an application."""
    app.extensions["wireroom"] = settings
    for blueprint in BLUEPRINTS:
        app.register_blueprint(blueprint)
