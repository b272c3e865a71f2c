"""A drain that is blocked says which nodes were bought for its pods and stand empty meanwhile (TRM-05)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from activities.kubernetes.client import EvictionAnswer
from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.resources import NODECLAIMS, PDBS
from activities.node.drain import drain
from activities.node.idle_replacements import IdleReplacements
from tenon.messages.node_steps import DrainInput, DrainResult
from tenon.node.drain_blockers import sentence
from tests.activities.node.world import PROVIDER_ID, REF, Ec2, World, claim, live, pod

BLOCKED = EvictionAnswer("blocked", "The disruption budget web needs 1 healthy pods and has 1 currently")
IDLE = "meanwhile Node node-2 stands empty at $0.1000 an hour and waits for 1 of these pods"


def replacement(name: str = "web-2", node: str = "node-2", planned: str = "default/web-0=uid-web-0") -> dict[str, Any]:
    """The claim of a live node that was bought for pods."""
    body = live(claim())
    body["metadata"] |= {"name": name, "uid": f"uid-{name}", "annotations": {"tenon.sh/planned-pods": planned}}
    body["status"]["nodeName"] = node
    return body


def blocked() -> World:
    world = World().put_live().put_pods(pod("web-0"), pod("log", owner="DaemonSet", on="node-2"))
    world.kube.add(PDBS, {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}}})
    world.kube.answers["default/web-0"] = BLOCKED
    return world


async def run(world: World, idle: IdleReplacements | None = None) -> DrainResult:
    drain_input = DrainInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", budget_seconds=2)
    idle = idle or IdleReplacements(world.kube, cast("Any", Ec2()), world.clock)
    return await drain(
        world.kube,
        world.recorder,
        drain_input,
        world.clock,
        world.clock.sleep,
        idle_nodes=idle.sentence,
    )


async def test_trm05_a_blocked_drain_names_the_node_that_stands_empty_and_its_price() -> None:
    world = blocked()
    world.kube.add(NODECLAIMS, replacement())
    result = await run(world)
    budget = "pod default/web-0 cannot be evicted: PodDisruptionBudget default/web allows no eviction"
    assert ([*map(sentence, result.blocked)], result.idle) == ([budget], IDLE)
    assert ("Node", "node-1", "ReplacementIdle", f"{budget}; {IDLE}") in world.recorder.events


@pytest.mark.parametrize(
    "change",
    [
        {"planned": "default/web-0=uid-of-an-earlier-pod"},
        {"node": ""},
        {"node": "node-3"},
        {"deleted": True},
    ],
    ids=["for other pods", "not joined", "has pods", "leaves"],
)
async def test_other_nodes_are_not_named(change: dict[str, Any]) -> None:
    world = blocked().put_pods(pod("api-0", on="node-3"))
    deleted = change.pop("deleted", False)
    body = replacement(**change)
    if deleted:
        body["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    world.kube.add(NODECLAIMS, body)
    result = await run(world)
    assert result.blocked
    assert result.idle == ""
    assert "ReplacementIdle" not in world.recorder.reasons()


async def test_the_claims_are_listed_once_a_minute_for_all_drains() -> None:
    world = blocked()
    world.kube.add(NODECLAIMS, replacement())
    idle = IdleReplacements(world.kube, cast("Any", Ec2()), world.clock)
    for _ in range(3):
        assert (await run(world, idle)).idle == IDLE
    lists = [item for item in world.kube.listed if item[0] == "nodeclaims"]
    assert len(lists) == 1
    world.clock.instant += timedelta(minutes=2)
    await run(world, idle)
    assert len([item for item in world.kube.listed if item[0] == "nodeclaims"]) == 2


async def test_a_drain_that_is_not_blocked_lists_no_claims() -> None:
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=60))
    assert not (await run(world)).drained
    assert [item for item in world.kube.listed if item[0] == "nodeclaims"] == []


async def test_a_list_that_fails_does_not_fail_the_drain() -> None:
    world = blocked()

    async def away(*_: Any) -> Any:
        raise ApiUnreachableError("GET /nodeclaims", "away")

    world.kube.shared_list = away
    result = await run(world)
    assert len(result.blocked) == 1
    assert result.idle == ""
