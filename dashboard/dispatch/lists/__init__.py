"""Finding dispatches: filters, text search, pages."""
