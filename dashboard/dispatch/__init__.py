"""The domain: one message to one recipient, from the request to its end."""
