"""Keeps unit tests apart from tests that need a server or another process.

A test that opens connections or starts processes has the marker ``integration``, and a file of such tests says
``pytestmark = pytest.mark.integration``. `make unit` leaves them out, such a file even before it is imported. All other
tests that need no sandbox are refused both, also on loopback.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox_fixture import needs_sandbox

MARK = "pytest.mark.integration"
_ALL_TESTS = re.compile(rf"^pytestmark = \[?\s*{re.escape(MARK)}", re.MULTILINE)
SERVERS = frozenset({"temporal"})
"""Fixtures that start a server without Python's sockets."""

_running: str | None = None
"""The unit test that runs now."""


def is_integration(file: Path) -> bool:
    """True if all tests of this file may use servers and processes."""
    return _ALL_TESTS.search(file.read_text(encoding="utf-8")) is not None


def _refuses(method: Callable[..., Any], subject: str) -> Callable[..., Any]:
    def guarded(*arguments: Any, **options: Any) -> Any:
        if _running is not None:
            raise RuntimeError(f"{_running} {subject}: mark it with {MARK}")
        return method(*arguments, **options)

    return guarded


# --- pytest ---


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--unit", action="store_true", help="only the files whose tests need no server and no process")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "integration: the tests of the file need a server or another process")
    patch = pytest.MonkeyPatch()
    for name in ("connect", "connect_ex", "bind"):
        patch.setattr(socket.socket, name, _refuses(getattr(socket.socket, name), "uses a socket"))
    patch.setattr(subprocess.Popen, "__init__", _refuses(subprocess.Popen.__init__, "starts a process"))
    config.add_cleanup(patch.undo)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if not config.getoption("unit") or not collection_path.name.startswith("test_"):
        return None
    return True if needs_sandbox(collection_path) or is_integration(collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("unit"):
        left_out = {item for item in items if item.get_closest_marker("integration") is not None}
        config.hook.pytest_deselected(items=[*left_out])
        items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    global _running  # noqa: PLW0603
    is_unit = item.get_closest_marker("integration") is None and not needs_sandbox(item.path)
    _running = item.nodeid if is_unit else None
    try:
        return (yield)
    finally:
        _running = None


@pytest.fixture(autouse=True)
def _no_server_in_a_unit_test(request: pytest.FixtureRequest) -> None:
    if _running is not None and SERVERS & {*request.fixturenames}:
        pytest.fail(f"a test that uses a server needs {MARK}")
