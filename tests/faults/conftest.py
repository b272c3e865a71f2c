"""A worker whose calls to Kubernetes and EC2 can be held and broken, and an observer of what comes of it.

- ``api``: an `ApiProxy` between the worker and the API server; tests themselves talk to the API server directly.
- ``worker``: both processes behind that proxy, to be killed and started again.
- ``ec2``: EC2's side door; faults, holds, capacity, quotas and boot rules are cleared after each test.
- ``kube``, ``client``, ``new_pool``, ``make_pool``, ``tenon``, ``temporal_cli``: as in the end-to-end tests.
- ``observe``: ``async with observe(pool, ...) as seen:`` judges what happened to pools (see `observer`).
- ``reader``: a second replica, which reads the interruption queue.
- ``at_moments``: brings disruption commands to a step each (see `command_moments`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TypeAlias

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.faults.apiproxy import ApiProxy
from tests.audit import Report
from tests.e2e.conftest import (
    NewPool,
    client,
    kube,
    make_pool,
    new_pool,
    rejected_pods_reported,
    temporal_cli,
    tenon,
    workers_with_loaded_modules,
)
from tests.e2e.worker_process import WorkerProcess
from tests.faults.command_moments import CommandsAtMoments
from tests.faults.observer import Observer, observed

__all__ = [
    "client",
    "kube",
    "make_pool",
    "new_pool",
    "rejected_pods_reported",
    "temporal_cli",
    "tenon",
    "workers_with_loaded_modules",
]

Observe: TypeAlias = Callable[..., AbstractAsyncContextManager[Observer]]


@pytest.fixture(scope="package")
def api(sandbox: Sandbox) -> Iterator[ApiProxy]:
    """What the worker takes for the API server."""
    with ApiProxy.start(sandbox) as proxy:
        yield proxy


@pytest.fixture(scope="package")
def worker(sandbox: Sandbox, api: ApiProxy, report_shared_fault: Report) -> Iterator[WorkerProcess]:
    """The worker of all tests here, behind `api`; a test that kills it must start it again."""
    sandbox.ec2().lifecycle(pending=0.2, shutting_down=0.2)
    running = WorkerProcess(
        sandbox,
        "faults-worker",
        KUBECONFIG=str(api.kubeconfig),
        FEATURE_GATES="StaticCapacity=true,TerminateFirstDrift=true",
    )
    running.start()
    yield running
    if (ended := running.stop()) != 0:
        report_shared_fault(f"The worker of the fault tests ended with {ended}: see {running.log}")


@pytest_asyncio.fixture(loop_scope="session")
async def reader(worker: WorkerProcess, sandbox: Sandbox) -> AsyncIterator[WorkerProcess]:
    """A second replica that reads the interruption queue, so that ends of instances are noticed within seconds."""
    running = WorkerProcess(sandbox, "boot-reader", replica=1, INTERRUPTION_QUEUE=sandbox.cluster_name)
    await asyncio.to_thread(running.start)
    yield running
    assert await asyncio.to_thread(running.stop) == 0, f"see {running.log}"


@pytest.fixture(autouse=True)
def unheld(request: pytest.FixtureRequest) -> Iterator[None]:
    """No fault outlives its test."""
    yield
    if "api" in request.fixturenames:
        proxy: ApiProxy = request.getfixturevalue("api")
        proxy.clear()
        proxy.release()
    if "sandbox" in request.fixturenames:
        _clear(request.getfixturevalue("sandbox").ec2())


def _clear(ec2: Ec2Admin) -> None:
    ec2.clear_faults()
    ec2.release()
    ec2.clear_boot()
    ec2.clear_capacity()
    ec2.clear_quotas()
    ec2.clear_throttle()


@pytest.fixture
def ec2(sandbox: Sandbox) -> Ec2Admin:
    """EC2's side door."""
    return sandbox.ec2()


@pytest.fixture(scope="package")
def observe(kube: Kube, sandbox: Sandbox) -> Observe:
    """Makes observers of pools."""
    return partial(observed, kube, sandbox)


@pytest.fixture(scope="package")
def at_moments(new_pool: NewPool, kube: Kube, sandbox: Sandbox, api: ApiProxy, client: Client) -> CommandsAtMoments:
    """Brings disruption commands to a step each."""
    return CommandsAtMoments(new_pool, kube, sandbox, api, client)
