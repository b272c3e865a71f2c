"""A disruption taint that somebody set, or left, on a node that stays (DIS-66)."""

from __future__ import annotations

from activities.kubernetes.resources import NODES
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, WITHIN
from tests.workflows.waiting import until


async def test_dis66_the_taint_goes_again_and_no_room_is_bought_for_the_pods(
    make_pool: MakePool, sandbox: Sandbox
) -> None:
    """The node, its pod and its claim stay; nothing else is bought meanwhile."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (claim,) = await pool.settled(1)
    node, key = claim["status"]["nodeName"], labels.DISRUPTED_TAINT[0]
    sandbox.kubectl("taint", "node", node, f"{key}:NoSchedule")

    async def untainted() -> bool:
        result = await pool.kube.get(NODES, node)
        assert result is not None
        return all(taint["key"] != key for taint in result["spec"].get("taints") or [])

    await until(untainted, within=WITHIN)
    assert [claim["metadata"]["uid"] for claim in await pool.claims()] == [claim["metadata"]["uid"]]
    assert [item["metadata"]["uid"] for item in await pool.running(1)] == [pod["metadata"]["uid"]]
    assert len(pool.instances()) == 1
