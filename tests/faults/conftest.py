"""The installations that faults happen in: on the session's servers, and on their own."""

from tests.installation import apart, here, own_servers

__all__ = ["apart", "here", "own_servers"]
