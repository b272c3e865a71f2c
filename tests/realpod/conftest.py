"""A sandbox with a real node, and Tenon installed there by its chart."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from sandbox.kubelet.machine import unable
from tests.image.container import stale
from tests.sandbox_clients import administrator
from tests.sandbox_fixture import BOOT_SECONDS


@pytest.fixture(scope="package", autouse=True)
def able() -> None:
    """Skip all tests here where a kubelet cannot run."""
    if reason := unable():
        pytest.skip(reason)


@pytest.fixture(scope="package")
def sandbox(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A sandbox in which Tenon's image runs as the chart's Deployment."""
    if reason := stale():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("realpod")
    with Sandbox.start(folder, boot_delay=BOOT_SECONDS, kubelet=True) as running:
        running.install()
        yield running


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    """The administrator's view of the cluster."""
    async with administrator(sandbox) as client:
        yield client
