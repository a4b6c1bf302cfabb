"""Fixtures of the house, for tests of access and of its pages."""

from collections.abc import Iterator

import pytest
from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine
from sqlalchemy.orm import Session

from dashboard.database import db
from dashboard.settings import Settings
from tests.access.house import build


@pytest.fixture(scope="session")
def _house(settings: Settings, database: Engine) -> Iterator[Flask]:
    app = build(settings)
    yield app
    with app.app_context():
        db.engine.dispose()


@pytest.fixture
def house(_house: Flask, clean: None) -> Flask:
    """The application without a context around it, on empty tables."""
    return _house


@pytest.fixture
def visitor(house: Flask) -> FlaskClient:
    """A browser that nobody has signed in with."""
    return house.test_client()


@pytest.fixture
def rows(database: Engine, clean: None) -> Iterator[Session]:
    """A second connection to the database."""
    with Session(database, expire_on_commit=False) as session:
        yield session
