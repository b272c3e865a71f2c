"""How often a policy repaired nodes, in its status."""

from __future__ import annotations

from typing import Any

import pytest

from activities.kubernetes.errors import ForbiddenError
from activities.kubernetes.repair_outcomes import record_outcome
from activities.kubernetes.resources import NODEREPAIRPOLICIES
from tenon.apis.noderepairpolicy import MAX_RECENT, RecentRepair
from tests.activities.node.fake_kube import START
from tests.activities.node.world import World
from tests.tenon.apis.sample_repair_policy import BASE


def repair(id_: str, action: Any = "ReplaceNode", outcome: str = "succeeded") -> RecentRepair:
    return RecentRepair(id=id_, node_claim="n", fault="Ready is False", action=action, outcome=outcome, at=START)


def with_policy() -> World:
    world = World()
    world.kube.add(NODEREPAIRPOLICIES, {**BASE, "status": {"nodePools": 2}})
    return world


def status(world: World) -> dict[str, Any]:
    policy = world.kube.objects[NODEREPAIRPOLICIES.plural, "", "case"]
    return dict(policy["status"])


async def test_repairs_are_counted_by_action_and_outcome_and_a_repetition_counts_nothing() -> None:
    world = with_policy()
    repairs = [repair("a"), repair("b", "RebootNode"), repair("a"), repair("c", outcome="failed"), repair("d")]
    for entry in repairs:
        await record_outcome(world.kube, "case", entry)
    assert {(count["action"], count["outcome"]): count["count"] for count in status(world)["outcomes"]} == {
        ("ReplaceNode", "succeeded"): 2,
        ("ReplaceNode", "failed"): 1,
        ("RebootNode", "succeeded"): 1,
    }
    assert [entry["id"] for entry in status(world)["recent"]] == ["d", "c", "b", "a"]
    assert status(world)["nodePools"] == 2, "the rest of the status stays"


async def test_only_the_last_repairs_are_listed_and_all_are_counted() -> None:
    world = with_policy()
    for number in range(MAX_RECENT + 5):
        await record_outcome(world.kube, "case", repair(f"{number}"))
    assert len(status(world)["recent"]) == MAX_RECENT
    assert status(world)["outcomes"][0]["count"] == MAX_RECENT + 5


@pytest.mark.parametrize("policy", ["", "gone"])
async def test_a_repair_by_nobody_or_by_a_policy_that_is_gone_is_not_counted(policy: str) -> None:
    world = with_policy()
    await record_outcome(world.kube, policy, repair("a"))
    assert status(world) == {"nodePools": 2}


async def test_a_count_that_the_api_server_forbids_does_not_fail_the_repair() -> None:
    world = with_policy()

    async def forbidden(*_: Any, **__: Any) -> None:
        raise ForbiddenError(403, "Forbidden", "no")

    world.kube.patch = forbidden
    await record_outcome(world.kube, "case", repair("a"))
