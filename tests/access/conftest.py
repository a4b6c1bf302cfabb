"""Tests of access use the house."""

from tests.access.house_fixtures import _house, house, rows, visitor

__all__ = ["_house", "house", "rows", "visitor"]
