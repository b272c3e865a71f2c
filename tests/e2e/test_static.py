"""Static NodePools on the sandbox: as many nodes as ``kubectl scale`` says (SCH-100, GAT-05)."""

from __future__ import annotations

import pytest

from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from sandbox import kubectl
from sandbox.cluster import Sandbox
from sandbox.kubectl import KubectlError
from tenon.apis import labels
from tenon.messages.explanation import Explanation
from tests.e2e.conftest import MakePool
from tests.e2e.moments import recorded
from tests.e2e.pools import SMALL, condition, leaving
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


async def test_sch100_kubectl_scale_makes_nodes_and_takes_empty_ones_first(
    make_pool: MakePool, worker: Worker, sandbox: Sandbox
) -> None:
    """NP-25, NP-S2, DIS-16: 0 -> 3 -> 1; pods land on the nodes; empty ones stay until the pool is scaled down."""
    pool = await make_pool(replicas=0, consolidate_after="0s", requirements=SMALL)

    def scale(replicas: int) -> None:
        kubectl.kubectl(sandbox.kubeconfig, "scale", "nodepool", pool.name, f"--replicas={replicas}")

    assert await pool.claims() == []
    scale(3)
    claims = await pool.settled(3)
    assert len({claim["metadata"]["name"] for claim in claims}) == 3
    explained = [Explanation.of(claim["metadata"]["annotations"][labels.EXPLANATION]) for claim in claims]
    assert all(item.occasion.endswith(f"of 3 replicas of static NodePool {pool.name}") for item in explained)
    assert (await pool.read())["metadata"]["annotations"][labels.NEXT_ORDINAL] == "3"
    for claim in claims:
        assert claim["metadata"]["annotations"].keys() >= {labels.NODEPOOL_HASH, labels.EC2NODECLASS_HASH}
        assert claim["metadata"]["ownerReferences"][0]["name"] == pool.name

    async def counted() -> bool:
        return bool((await pool.read())["status"]["nodes"] == 3)

    await until(counted)
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    claim_after = await pool.claim_of(pod)
    assert len(await pool.claims()) == 3, "the pod has landed on a node that was there"

    async def noticed() -> bool:
        """The leader writes this field from its cache. Once it is set, the cache has the pod on the node."""
        claim = await pool.kube.get(NODECLAIMS, claim_after)
        return "lastPodEventTime" in (claim or {})["status"]

    await until(noticed)
    scale(1)
    for claim in claims:
        if claim["metadata"]["name"] != claim_after:
            await pool.gone(claim["metadata"]["name"])
    (remainder,) = await pool.claims()
    assert remainder["metadata"]["name"] == claim_after
    assert not leaving(remainder)
    assert [p["metadata"]["uid"] for p in await pool.running(1)] == [pod["metadata"]["uid"]]
    assert worker.logged("The worker found a node to disrupt", nodepool=pool.name, reason="Empty") == []
    assert sorted(i["state"] for i in pool.instances()) == ["running", "terminated", "terminated"]

    await pool.kube.delete(NODECLAIMS, claim_after)
    await pool.gone(claim_after)
    (replaced,) = await pool.settled(1)
    assert replaced["metadata"]["name"] != claim_after


async def test_dis02_a_drifted_static_node_is_replaced_although_its_pods_fit_nowhere_else(make_pool: MakePool) -> None:
    """DIS-63: its replacement is ready before it leaves, and takes its pods. No third node is bought."""
    pool = await make_pool(replicas=1, requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    (old,) = await pool.settled(1)
    name = old["metadata"]["name"]
    async with recorded(pool.kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS,)) as moments:
        await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"template": {"metadata": {"labels": {"tier": "gold"}}}}})
        await pool.gone(name)
        (pod,) = await pool.running(1)
        (new,) = await pool.settled(1)
    assert new["metadata"]["labels"]["tier"] == "gold"
    assert await pool.claim_of(pod) == new["metadata"]["name"]
    assert len(pool.instances()) == 2
    ready = [
        sum(condition(claim, "Initialized").get("status") == "True" for claim in objects["NodeClaim"].values())
        for objects in moments.replay()
    ]
    assert min(ready) == 1
    assert max(ready) == 2


async def test_npv1_a_dynamic_pool_cannot_be_scaled(make_pool: MakePool, sandbox: Sandbox) -> None:
    """The API server says why; the pool stays as it was."""
    pool = await make_pool()
    with pytest.raises(KubectlError, match="replicas"):
        kubectl.kubectl(sandbox.kubeconfig, "scale", "nodepool", pool.name, "--replicas=3")
    assert "replicas" not in (await pool.read())["spec"]
