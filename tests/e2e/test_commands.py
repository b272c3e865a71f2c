"""What an operator asks of the command while a cluster runs: which nodes, why a pod waits, drain these and wait."""

from __future__ import annotations

import asyncio
import json

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.kube.claim_record import instance_id_of
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import NAMESPACE, SMALL


async def test_the_questions_of_an_operator_are_answered_by_the_command(
    make_pool: MakePool, tenon: Run, kube: Kube
) -> None:
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(2)
    await pool.running(2)
    claims = await pool.settled(2)
    selector = f"{labels.NODEPOOL}={pool.name}"

    async def ask(*arguments: str, status: int = 0) -> str:
        done = await asyncio.to_thread(tenon, *arguments)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout

    rows = json.loads(await ask("node", "list", "-l", selector, "-o", "json"))
    assert sorted(row["nodeClaim"] for row in rows) == sorted(claim["metadata"]["name"] for claim in claims)
    own = {claim["metadata"]["name"]: instance_id_of(claim["status"]["providerID"]) for claim in claims}
    charged = {instance["id"]: instance["price"] for instance in pool.instances()}
    prices = [charged[own[row["nodeClaim"]]] for row in rows]
    assert [row["pricePerHour"] for row in rows] == [pytest.approx(price, abs=1e-4) for price in prices]
    recorded = await kube.get(NODECLAIMS, rows[0]["nodeClaim"])
    assert recorded is not None
    assert float(recorded["metadata"]["annotations"][labels.LAUNCH_PRICE]) == rows[0]["pricePerHour"]

    huge = (await pool.pod("huge", containers=pool.pod_spec("4000")["containers"]))["metadata"]["name"]
    waiting = json.loads(await ask("pods", "--pending", "-o", "json"))["groups"]
    (group,) = [group for group in waiting if f"{NAMESPACE}/{huge}" in group["pods"]]
    assert group["waitsFor"] == "nothing fits"
    assert f"NodePool {pool.name}: needs 4000 CPU" in group["why"]
    assert f"NodePool {pool.name}: needs 4000 CPU" in await ask("explain", "pod", huge, "-n", NAMESPACE)
    facts = json.loads(await ask("explain", "nodepool", pool.name, "-o", "json"))
    assert facts["nodes"][0] == "2 nodes"
    assert any("needs 4000 CPU" in text for text in facts["buys"])
    (pod, _) = await pool.running(2, "web")
    bought = await ask("explain", "pod", f"{NAMESPACE}/{pod['metadata']['name']}")
    assert f"Tenon bought NodeClaim {await pool.claim_of(pod)} of NodePool {pool.name} at $" in bought
    await pool.delete_pod("huge")

    planned = await ask("node", "drain", "-l", selector, "--max", "1", "--dry-run")
    assert planned.startswith("would drain 1 node ($")
    assert " with 1 pod:" in planned.splitlines()[0]
    drained = await ask("node", "drain", "-l", selector, "--max", "1", "--wait", "--reason", "a rotation")
    node_name = drained.partition(":")[0]
    assert drained.splitlines()[-1].endswith(f"{node_name}: gone")
    assert "a rotation" in drained
    (gone_row,) = [row for row in rows if row["node"] == node_name]
    assert await kube.get(NODECLAIMS, gone_row["nodeClaim"]) is None
    assert "does not exist" in (await asyncio.to_thread(tenon, "node", "drain", "--pool", "none")).stderr
