"""The local PostgreSQL and Valkey, and the supervisor that `wireroom up` runs everything under."""
