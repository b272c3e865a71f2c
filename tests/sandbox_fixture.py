"""One sandbox for all tests of a session: a real cluster, a real Temporal, and an EC2 that boots quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.cluster import Sandbox
from sandbox.status import State

BOOT_SECONDS = 1.0


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The session's sandbox; a component that died meanwhile is an error of the session."""
    running = Sandbox.start(tmp_path_factory.mktemp("sandbox"), boot_delay=BOOT_SECONDS, on_progress=print)
    yield running
    status = running.status()
    running.stop()
    assert status.state is State.READY, status.message
