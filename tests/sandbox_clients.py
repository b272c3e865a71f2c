"""Clients of a sandbox for somebody who watches it from outside: its administrator, and Temporal."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from temporalio.client import Client

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from tests.watching_kube import WatchingKube
from worker.runtime.temporal.temporal_client import connect


@asynccontextmanager
async def administrator(sandbox: Sandbox) -> AsyncIterator[Kube]:
    """A client that may do everything in the sandbox's cluster."""
    client = await WatchingKube.connect(str(sandbox.kubeconfig))
    try:
        yield client
    finally:
        await client.close()


async def temporal_client(sandbox: Sandbox) -> Client:
    """A client of the sandbox's Temporal, whatever the caller's environment names."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TEMPORAL_")]:
            patch.delenv(name)
        patch.setenv("TEMPORAL_ADDRESS", sandbox.temporal_address)
        return await connect()
