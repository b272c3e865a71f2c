"""Drills are about processes, so each worker is started as in a container."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.worker_process import WorkerProcess


@pytest.fixture(scope="package", autouse=True)
def workers_with_loaded_modules() -> Iterator[None]:
    """None is forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerProcess, "preloaded", None)
        yield
