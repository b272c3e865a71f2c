"""One sandbox for all tests of a session: a real cluster, a real Temporal, and an EC2 that boots quickly.

When pytest-xdist runs tests in several processes, each is a session with a sandbox and ports of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from sandbox.cluster import Sandbox
from sandbox.kubelet.machine import unable
from sandbox.ports import OWN_RANGE, port_range
from sandbox.status import State
from tests.image.container import stale

BOOT_SECONDS = 1.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pods", action="store_true", help="run the worker of tests/e2e in real pods: docs/real-pods.md")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("pods") and (reason := unable() or stale()):
        raise pytest.UsageError(reason)
    process = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if process:
        whole = port_range()
        each = len(whole) // int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        first = whole.start + int(process) * each
        os.environ[OWN_RANGE] = f"{first}-{first + each - 1}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that need a sandbox come last, because an unused one takes processor time from the other tests.

    Of these, files with a test that must be alone come first: other processes have no sandbox then.
    """
    needing = {item.path for item in items if "sandbox" in getattr(item, "fixturenames", ())}
    alone = {item.path for item in items if item.get_closest_marker("alone") is not None}
    items.sort(key=lambda item: (item.path in needing, item.path not in alone))


@pytest.fixture(scope="session")
def sandbox(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The session's sandbox; a component that died meanwhile is an error of the session."""
    running = Sandbox.start(
        tmp_path_factory.mktemp("sandbox"),
        boot_delay=BOOT_SECONDS,
        kubelet=request.config.getoption("pods"),
        on_progress=print,
    )
    yield running
    status = running.status()
    running.stop()
    assert status.state is State.READY, status.message
