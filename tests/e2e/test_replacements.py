"""Nodes that drifted are replaced: the new node is ready before the old one leaves (DIS-03, DIS-60 to DIS-64)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile
from math import ceil
from typing import Any

from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODEPOOLS, NODES
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.moments import Moments, recorded
from tests.e2e.pools import SMALL, WITHIN, Object, condition, leaving
from tests.workflows.waiting import until

COUNT, AT_ONCE = 10, 2
"""Nodes, and how many of them a budget of 20 % lets be unavailable."""


def unavailable(claim: Object, node: Object | None) -> bool:
    """Whether an initialized node uses up the budget of its NodePool (DIS-52)."""
    marked = condition(claim, "DisruptionReason").get("status") == "True"
    if node is None or leaving(claim) or leaving(node) or marked:
        return True
    tainted = any(taint["key"] == labels.DISRUPTED_TAINT[0] for taint in node["spec"].get("taints") or ())
    return tainted or condition(node, "Ready").get("status") != "True"


def counts(moments: Moments) -> Iterator[tuple[int, int]]:
    """At every moment, how many of the pool's nodes are available, and how many are unavailable.

    A node whose instance is being terminated is neither (DIS-50): its pods run elsewhere.
    """
    for objects in moments.replay():
        nodes = {node["metadata"]["name"]: node for node in objects.get("Node", {}).values()}
        counted = [
            unavailable(claim, nodes.get(claim["status"]["nodeName"]))
            for claim in objects.get("NodeClaim", {}).values()
            if condition(claim, "Initialized").get("status") == "True"
            and condition(claim, "InstanceTerminating").get("status") != "True"
        ]
        yield counted.count(False), counted.count(True)


async def test_dis_63_a_drifted_node_leaves_when_its_replacement_is_ready(make_pool: MakePool) -> None:
    """A new label in the NodePool's template. No pod waits for long, because the new node is there."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    (old,) = await pool.settled(1)
    name = old["metadata"]["name"]
    await pool.kube.patch(NODEPOOLS, pool.name, {"spec": {"template": {"metadata": {"labels": {"tier": "gold"}}}}})
    at_leave: list[Any] = []

    async def leaves() -> bool:
        claims = {claim["metadata"]["name"]: claim for claim in await pool.claims()}
        if name in claims and not leaving(claims[name]):
            return False
        at_leave[:] = [claim for key, claim in claims.items() if key != name]
        return True

    await until(leaves, within=WITHIN)
    (new,) = at_leave
    assert condition(new, "Initialized").get("status") == "True"
    assert new["metadata"]["labels"]["tier"] == "gold"
    await pool.gone(name)
    await pool.running(1)
    (now,) = await pool.settled(1)
    assert now["metadata"]["uid"] == new["metadata"]["uid"]

    async def is_ordinary() -> bool:
        """The command gives it up as its last step, which may have to be tried again."""
        return "tenon.sh/replacement-for" not in (await pool.claim())["metadata"]["annotations"]

    await until(is_ordinary, within=WITHIN)
    await pool.seen(name, "DisruptionWaitingReadiness", new["metadata"]["name"])
    await pool.seen(name, "DisruptionTerminating", "Drifted")
    await pool.seen(new["metadata"]["name"], "DisruptionLaunching", "Drifted")


async def test_dis_74_another_ami_replaces_all_nodes_within_the_budget(make_pool: MakePool) -> None:
    """Ten nodes under a budget of 20 %: at no moment are more than two of ten unavailable.

    The budget counts a new node as soon as it is initialized, so three of 11 to 15 nodes may be (DIS-50, DIS-51).
    """
    pool = await make_pool(consolidate_after="Never", requirements=SMALL, budgets=[{"nodes": "20%"}])
    spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    own = {"labelSelector": {"matchLabels": {"app": f"{pool.name}-web"}}}
    async with recorded(pool.kube, f"{labels.NODEPOOL}={pool.name}", (NODECLAIMS, NODES)) as moments:
        await pool.deploy(COUNT, topologySpreadConstraints=[{**spread, **own, "minDomains": COUNT}])
        await pool.running(COUNT)
        old = {item["metadata"]["name"] for item in await pool.settled(COUNT)}
        images = {claim["status"]["imageID"] for claim in await pool.claims()}
        bottlerocket = {"spec": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}}
        await pool.kube.patch(EC2NODECLASSES, pool.name, bottlerocket)

        async def replaced() -> bool:
            return not old & {claim["metadata"]["name"] for claim in await pool.claims()}

        await until(replaced, within=4 * WITHIN)
        await pool.running(COUNT)
        assert not images & {item["status"]["imageID"] for item in await pool.settled(COUNT)}

    course = list(dropwhile(lambda observations: observations != (COUNT, 0), counts(moments)))
    assert all(removal <= ceil((present_items + removal) * AT_ONCE / COUNT) for present_items, removal in course)
    assert max(removal for _, removal in course) >= AT_ONCE
    assert min(present_items for present_items, _ in course) >= COUNT - AT_ONCE
