"""Fixtures shared by all tests."""

pytest_plugins = ["tests.fuzzing", "tests.temporal_fixture", "tests.sandbox_fixture"]
