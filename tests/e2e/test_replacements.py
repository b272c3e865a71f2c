"""Nodes that drifted are replaced: the new node is ready before the old one leaves (DIS-03, DIS-60 to DIS-64)."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, WITHIN, Pool, condition, leaving
from tests.workflows.waiting import until

COUNT = 10


async def observed(pool: Pool, claims: set[str]) -> tuple[bool, int]:
    """Whether all these NodeClaims are gone, and how many of the pool's NodeClaims leave or are about to."""
    there = await pool.claims()
    going = [one for one in there if leaving(one) or condition(one, "DisruptionReason").get("status") == "True"]
    return not claims & {one["metadata"]["name"] for one in there}, len(going)


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
        claims = {one["metadata"]["name"]: one for one in await pool.claims()}
        if name in claims and not leaving(claims[name]):
            return False
        at_leave[:] = [one for key, one in claims.items() if key != name]
        return True

    await until(leaves, within=WITHIN)
    (new,) = at_leave
    assert condition(new, "Initialized").get("status") == "True"
    assert new["metadata"]["labels"]["tier"] == "gold"
    await pool.gone(name)
    await pool.running(1)
    (now,) = await pool.settled(1)
    assert now["metadata"]["uid"] == new["metadata"]["uid"]
    assert "tenon.sh/replacement-for" not in now["metadata"]["annotations"]
    await pool.seen(name, "DisruptionWaitingReadiness", new["metadata"]["name"])
    await pool.seen(name, "DisruptionTerminating", "Drifted")
    await pool.seen(new["metadata"]["name"], "DisruptionLaunching", "Drifted")


async def test_dis_74_another_ami_replaces_all_nodes_within_the_budget(make_pool: MakePool) -> None:
    """Ten nodes under a budget of 20 %: never more than two at once."""
    budgets = [{"nodes": "20%"}]
    pool = await make_pool(consolidate_after="Never", requirements=SMALL, budgets=budgets)
    spread = {"topologyKey": "kubernetes.io/hostname", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    own = {"labelSelector": {"matchLabels": {"app": f"{pool.name}-web"}}}
    await pool.deploy(COUNT, topologySpreadConstraints=[{**spread, **own, "minDomains": COUNT}])
    await pool.running(COUNT)
    old = {one["metadata"]["name"] for one in await pool.settled(COUNT)}
    images = {one["status"]["imageID"] for one in await pool.claims()}
    await pool.kube.patch(EC2NODECLASSES, pool.name, {"spec": {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}})
    most = 0

    async def replaced() -> bool:
        nonlocal most
        done, going = await observed(pool, old)
        most = max(most, going)
        return done

    await until(replaced, within=4 * WITHIN)
    assert most == 2
    await pool.running(COUNT)
    assert not images & {one["status"]["imageID"] for one in await pool.settled(COUNT)}
