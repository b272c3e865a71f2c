"""Unhealthy nodes are replaced by force, with the feature gate NodeRepair."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool
from tests.e2e.lives import life_of
from tests.e2e.pools import SMALL, leaving
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


def report(sandbox: Sandbox, node: str, type_: str, ago: timedelta = timedelta()) -> None:
    """Set a condition to False, as the node monitoring agent does."""
    since = (datetime.now(UTC) - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    found = {"type": type_, "status": "False", "lastTransitionTime": since, "reason": "Test", "message": "it is broken"}
    patch = json.dumps({"status": {"conditions": [found]}})
    sandbox.kubectl("patch", "node", node, "--subresource=status", "--patch", patch)


async def test_sch104_an_unhealthy_node_is_replaced_whatever_protects_its_pods(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox, client: Client
) -> None:
    """CTL-08, EVT-04, GAT-01, MET-09: against a closed budget, a PodDisruptionBudget at zero and a long grace time."""
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
    report(sandbox, claim["status"]["nodeName"], "StorageReady", timedelta(minutes=31))
    await pool.gone(name)
    life = await life_of(client, sandbox, name)
    assert (life.reason, life.actor) == ("unhealthy", "controller node.health")
    assert life.detail.startswith("StorageReady is False for 31m")
    assert f"leaving: unhealthy: {life.detail} (controller node.health)" in [entry.text for entry in life.timeline]
    (new,) = await pool.running(1)
    assert new["metadata"]["uid"] != pod["metadata"]["uid"]
    assert await pool.claim_of(new) != name
    ended = {"condition": "storage_ready", "nodepool": pool.name, "image_id": claim["status"]["imageID"]}

    async def counted() -> bool:
        return worker.metric("karpenter_nodeclaims_unhealthy_disrupted_total", **ended) == 1

    await until(counted)


async def test_sch104_evt04_too_many_unhealthy_nodes_are_left_alone(make_pool: MakePool, sandbox: Sandbox) -> None:
    """Of two nodes one may be unhealthy. The other one of these is not due yet, but it counts."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    await pool.deploy(2)
    await pool.running(2)
    first, second = await pool.settled(2)
    report(sandbox, first["status"]["nodeName"], "KernelReady")
    report(sandbox, second["status"]["nodeName"], "NetworkingReady", timedelta(hours=1))
    for named in (second["metadata"]["name"], second["status"]["nodeName"]):
        await pool.seen(named, "NodeRepairBlocked", "More than 20%", pool.name)
    assert not any(leaving(claim) for claim in await pool.claims())
