"""Workers that serve node workflows under one version of the code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio.client import Client

from tests.workflows.fake_activities import FakeWorld
from tests.workflows.serving import serving
from worker.runtime.temporal.worker_versions import ENDS_ON


@asynccontextmanager
async def served(client: Client, cluster: str, world: FakeWorld) -> AsyncIterator[None]:
    """A worker as production has it, started again: it replays whatever it is asked about."""
    async with serving(client, cluster, world.all(), workflow_failure_exception_types=ENDS_ON):
        yield
