"""Keeps asyncio's own lines out of `caplog`.

asyncio logs what the garbage collector finds, such as a connection that nobody closed or an exception that nobody
read. The collector runs in any later test of the process, which then has a line that it did not cause. A test that is
about such lines has the marker ``asyncio_lines``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

MARKER = "asyncio_lines"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", f"{MARKER}: the test reads what asyncio logs")


@pytest.fixture(autouse=True)
def _own_log_lines(request: pytest.FixtureRequest) -> Iterator[None]:
    if "caplog" not in request.fixturenames or request.node.get_closest_marker(MARKER):
        yield
        return
    handler: logging.Handler = request.getfixturevalue("caplog").handler
    handler.addFilter(_is_own)
    yield
    handler.removeFilter(_is_own)


def _is_own(record: logging.LogRecord) -> bool:
    return record.name != "asyncio"
