"""Two bad pods among fifty, one whose NodeClaim is refused and one on which the engine fails: 48 run, two say why."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS, PODS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool, Run
from tests.e2e.other_worker import in_place_of
from tests.e2e.pools import KEY, NAMESPACE
from tests.e2e.worker_process import WorkerProcess
from tests.faults.admission import no_nodeclaim_with

FAULT = "tests.tenon.sh/engine-fault"
CLOSED = "no such nodes before the audit"


@pytest.fixture
def faulty(worker: WorkerProcess, sandbox: Sandbox, tmp_path: Path) -> Iterator[WorkerProcess]:
    """A worker whose engine has a fault, in place of the usual one; with a folder for temporary files of its own."""
    folder = Path(__file__).parent / "engine_fault"
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    running = WorkerProcess(sandbox, "faulty-worker", PYTHONPATH=path, TMPDIR=str(tmp_path))
    with in_place_of(worker, running):
        yield running


async def test_two_bad_pods_among_fifty(faulty: WorkerProcess, make_pool: MakePool, kube: Kube, tenon: Run) -> None:
    pool, closed = await make_pool(consolidate_after="Never"), await make_pool()
    async with no_nodeclaim_with(kube, labels.NODEPOOL, closed.name, CLOSED):
        await closed.pod("refused")
        marked = {"name": f"{pool.name}-fault", "labels": {KEY: pool.name, FAULT: "true"}}
        await kube.create(PODS, {"metadata": marked, "spec": pool.pod_spec()}, NAMESPACE)
        await pool.deploy(48)
        await pool.running(48, app="web")

        assert CLOSED in await closed.seen(f"{closed.name}-refused", "FailedScheduling", CLOSED)
        text = await pool.seen(f"{pool.name}-fault", "FailedScheduling", "an internal error")
        assert "RuntimeError: a fault for a test" in text
        assert await closed.claims() == []
    await kube.patch(NODEPOOLS, closed.name, {"spec": {"weight": 2}})  # a pool that changed is asked again at once
    await closed.running(1)

    assert faulty.metric("tenon_scheduler_failures_total") >= 1
    line = next(line for line in faulty.log.read_text().splitlines() if "The scheduling engine failed" in line)
    (path,) = re.findall(r"/\S+/problem-[0-9a-f]{8}\.json\.gz", json.loads(line)["problem"])
    again = await asyncio.to_thread(tenon, "simulate", "--problem", path)
    assert again.returncode == 0, "without the fault there is a plan"
    assert f"buy for {NAMESPACE}/{pool.name}-fault: " in again.stdout
