"""LEGACY_NODE_REPAIR: unhealthy nodes are ended by force, as in Karpenter 1.14."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from temporalio.client import Client

from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool, MakeWorker
from tests.e2e.lives import life_of
from tests.e2e.pools import SMALL
from tests.e2e.repairing_worker import instead, report
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


@pytest.fixture
def legacy(worker: Worker, sandbox: Sandbox, make_worker: MakeWorker) -> Iterator[Worker]:
    """A worker with the node repair of Karpenter 1.14, in place of the usual one."""
    yield from instead(worker, make_worker, sandbox, "e2e-legacy-repair", is_legacy=True)


async def test_n15_144_legacy_repair_ends_an_unhealthy_node_whatever_protects_its_pods(
    make_pool: MakePool, legacy: Worker, sandbox: Sandbox, client: Client
) -> None:
    """CTL-08, N15-146: against a closed budget, a PodDisruptionBudget at zero and a long grace time."""
    pool = await make_pool(
        requirements=SMALL,
        budgets=[{"nodes": "0"}],
        template={"terminationGracePeriod": "2h"},
        consolidate_after="Never",
    )
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]
    await pool.protect("web")
    report(sandbox, claim["status"]["nodeName"], "StorageReady")
    await pool.gone(name)
    life = await life_of(client, sandbox, name)
    assert (life.reason, life.actor) == ("Unhealthy", "controller node.health")
    ages = ("31m", "32m")  # since it was reported, a minute may have passed
    assert life.detail.startswith(tuple(f"StorageReady is False for {age}" for age in ages))
    (new,) = await pool.running(1)
    assert new["metadata"]["uid"] != pod["metadata"]["uid"]
    claims = {"nodepool": pool.name, "condition": "storage_ready", "termination_mode": "forceful"}
    pods = {"nodepool": pool.name, "reason": "unhealthy", "termination_mode": "eventual"}

    async def counted() -> bool:
        return (
            legacy.metric("karpenter_nodeclaims_unhealthy_disrupted_total", **claims) == 1
            and legacy.metric("karpenter_pods_disruption_initiated_total", **pods) == 1
        )

    await until(counted)
