"""A sandbox with temporal-server on PostgreSQL, and what reaches it: pools, clients, workers, other frontends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

import pytest

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from sandbox.temporal import TemporalKind
from sandbox.temporal.programs import unable
from tests.e2e.conftest import client, kube, make_pool, rejected_pods_reported, temporal_cli, tenon
from tests.e2e.pools import SMALL, Pool, fresh_pool
from tests.e2e.worker_process import WorkerProcess
from tests.sandbox_fixture import BOOT_SECONDS

__all__ = ["client", "kube", "make_pool", "rejected_pods_reported", "temporal_cli", "tenon"]

Working: TypeAlias = Callable[..., AbstractContextManager[WorkerProcess]]
_numbers = itertools.count()


@pytest.fixture(scope="package", autouse=True)
def able() -> None:
    """Skip all tests here where PostgreSQL is missing."""
    if reason := unable():
        pytest.skip(reason)


@pytest.fixture(scope="package")
def sandbox(able: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """The sandbox of all tests here."""
    folder = tmp_path_factory.mktemp("postgresql")
    with Sandbox.start(folder, boot_delay=BOOT_SECONDS, temporal=TemporalKind.POSTGRESQL, on_progress=print) as running:
        running.ec2().lifecycle(pending=0.2, shutting_down=0.2)
        yield running


@pytest.fixture
def working(sandbox: Sandbox) -> Working:
    """Runs a worker with other variables for as long as a ``with`` block lasts; it must stop gracefully."""

    @contextmanager
    def work(where: Sandbox = sandbox, **changes: str | None) -> Iterator[WorkerProcess]:
        running = WorkerProcess(where, f"worker-{next(_numbers)}", replica=0, **changes)
        running.start()
        try:
            yield running
        finally:
            status = running.stop()
        assert status == 0, f"see {running.log}"

    return work


async def live_and_end(kube: Kube, sandbox: Sandbox) -> str:
    """One life of a node: it is bought for a pod, becomes empty and goes. The name of its NodeClaim."""
    async with fresh_pool(kube, sandbox, requirements=SMALL) as pool:
        return await live_and_end_in(pool)


async def live_and_end_in(pool: Pool) -> str:
    """The same in a NodePool that exists."""
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name = str(claim["metadata"]["name"])
    await pool.scale(0)
    await pool.gone(name)
    return name
