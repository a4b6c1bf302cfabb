"""Requests for messages: read, judged, stored."""
