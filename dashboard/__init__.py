"""Wireroom: the dashboard, the dispatch engine and everything that they share."""
