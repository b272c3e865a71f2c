"""Fixtures shared by all tests."""

pytest_plugins = ["tests.temporal_fixture", "tests.sandbox_fixture"]
