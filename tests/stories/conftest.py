"""The installation that stories act on."""

from tests.installation import here

__all__ = ["here"]
