"""Tests with Temporal's server on PostgreSQL: only `make postgresql` runs them, because it builds the server."""
