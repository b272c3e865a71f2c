"""A worker on the session's sandbox, and the clients of somebody who watches it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from tests.audit import Report
from tests.e2e.pools import Pool, fresh_pool
from tests.e2e.worker import Worker
from tests.e2e.worker_pods import WorkerPods
from tests.e2e.worker_process import WorkerProcess, environment
from tests.preloaded_command import PreloadedCommand
from tests.preloaded_worker import PreloadedWorker
from tests.sandbox_clients import administrator, temporal_client
from tests.temporal_fixture import temporal_binary

Run: TypeAlias = Callable[..., "subprocess.CompletedProcess[str]"]
NewPool: TypeAlias = Callable[..., AbstractAsyncContextManager[Pool]]
MakePool: TypeAlias = Callable[..., Any]
MakeWorker: TypeAlias = Callable[..., Worker]
COMMAND_SECONDS = 780
"""Ends a command that hangs before pytest ends its test. A teardown waits minutes for the heartbeats of what died."""


@pytest.fixture(scope="session")
def make_worker(request: pytest.FixtureRequest) -> MakeWorker:
    """Makes workers: processes, or with ``--pods`` real pods."""
    return WorkerPods if request.config.getoption("pods") else WorkerProcess


@pytest.fixture(scope="package", autouse=True)
def workers_with_loaded_modules(preloaded_worker: PreloadedWorker) -> Iterator[None]:
    """Each `WorkerProcess` that can be is forked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkerProcess, "preloaded", preloaded_worker)
        yield


@pytest.fixture(scope="package")
def worker(sandbox: Sandbox, make_worker: MakeWorker, report_shared_fault: Report) -> Iterator[Worker]:
    """The worker of all tests here; it must stop gracefully in the end."""
    ec2 = sandbox.ec2()
    ec2.lifecycle(pending=0.2, shutting_down=0.2)
    running = make_worker(
        sandbox,
        FEATURE_GATES="StaticCapacity=true,NodeOverlay=true,CapacityBuffer=true,NodeRepair=true,TerminateFirstRepair=true",
        AWS_FEATURE_GATES="NodeClassCEL=true",
        ENABLE_PROFILING="true",
        ENABLE_ZONAL_SHIFT="true",
        DEFAULT_TAGS='{"cost-center": "1234"}',
        COST_INTERVAL="1m",
        INSECURE_CALENDARS="true",
    )
    running.start()
    yield running
    ended = running.uninstall() if isinstance(running, WorkerPods) else running.stop()
    if ended != 0:
        report_shared_fault(f"The worker of the end-to-end tests ended with {ended}: see {running.log}")


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def kube(sandbox: Sandbox) -> AsyncIterator[Kube]:
    """The administrator's view of the cluster."""
    async with administrator(sandbox) as client:
        yield client


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def client(sandbox: Sandbox) -> Client:
    """A client of the sandbox's Temporal."""
    return await temporal_client(sandbox)


@pytest.fixture(scope="package")
def new_pool(worker: Worker, sandbox: Sandbox, kube: Kube) -> NewPool:
    """Makes context managers of pools, for pools that outlive a test."""
    return partial(fresh_pool, kube, sandbox)


@pytest_asyncio.fixture(loop_scope="session")
async def make_pool(new_pool: NewPool) -> AsyncIterator[MakePool]:
    """``await make_pool(consolidate_after="1s", ...)``: a Ready NodePool of the test's own, gone after it."""
    async with AsyncExitStack() as stack:

        async def make(**options: Any) -> Pool:
            return await stack.enter_async_context(new_pool(**options))

        yield make


@pytest.fixture(autouse=True)
def rejected_pods_reported(sandbox: Sandbox, report_shared_fault: Report) -> Iterator[None]:
    """Reports pods that a kubelet refused. They may belong to an earlier test whose pods are still there."""
    yield
    ec2 = sandbox.ec2()
    rejected = ec2.rejections()
    ec2.clear_rejections()
    for pod in rejected:
        name = f"{pod['namespace']}/{pod['name']}"
        report_shared_fault(f"The kubelet of {pod['node']} refused pod {name}: {pod['message']}", at=pod["time"])


@pytest.fixture
def tenon(sandbox: Sandbox, tmp_path: Path, preloaded_command: PreloadedCommand) -> Run:
    """Run the ``tenon`` command as an administrator of the sandbox's cluster."""
    env = environment(sandbox, KUBECONFIG=str(sandbox.kubeconfig), TENON_SANDBOX_DIR=str(tmp_path), COLUMNS="200")

    def run(*arguments: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
        values = {name: value for name, value in {**env, **changes}.items() if value is not None}
        if not any(name.startswith("PYTHON") for name in changes):
            return preloaded_command.run(arguments, values, COMMAND_SECONDS)
        command = [sys.executable, "-m", "cli", *arguments]  # Python reads these variables when it starts
        return subprocess.run(command, env=values, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)

    return run


@pytest.fixture
def temporal_cli(sandbox: Sandbox) -> Run:
    """Run the ``temporal`` command against the sandbox's server."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [temporal_binary(), *arguments, "--address", sandbox.temporal_address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        return done

    return run
