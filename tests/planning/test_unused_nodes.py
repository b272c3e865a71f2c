"""Nodes that become ready without the pods that they were bought for: pauses, events, and what ends them (SCH-018)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

from tenon.lifecycle.messages.provisioning import BatchSummary, PlanInput, PurchasePause
from tests.planning.fake_view import node_pool
from tests.planning.setting import Setting
from tests.scheduling.builders import node, pod

REFUSAL = "0/3 nodes are available: 3 Insufficient ephemeral-storage."
PAST_BINDING = timedelta(seconds=21)


class Buying(Setting):
    """A planner whose nodes become ready at once."""

    batch = 40

    def refuse(self, name: str) -> None:
        """kube-scheduler says why it does not place a pod."""
        refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": REFUSAL}
        self.kube.pods[f"default/{name}"] = {"status": {"conditions": [refusal]}}

    async def buy(self, *, pauses: list[PurchasePause] | None = None) -> list[str]:
        """Plan a batch. Its nodes become ready, and the time that kube-scheduler has to bind the pods passes."""
        self.batch += 1
        made = await self.planner.plan(PlanInput(cluster="c", batch=self.batch, pauses=pauses or []))
        for name in made.claims:
            uids = self.view.planned[name]
            self.view.claim(name, *uids, initialized_at=self.now, batch=self.batch)
        self.now += PAST_BINDING
        return made.claims

    def undecided(self) -> list[str]:
        return [found.name for found in self.batcher.undecided()]

    def kept(self) -> list[PurchasePause]:
        """What the workflow would hand to the next leader."""
        return BatchSummary.model_validate_json(BatchSummary(pauses=self.batcher.pauses()).model_dump_json()).pauses

    def said(self, name: str) -> list[str]:
        return [event[3] for event in self.recorder.events if event[1:3] == (name, "FailedScheduling")]


async def test_sch018_two_nodes_without_their_pod_pause_and_the_pod_says_so() -> None:
    at = Buying(pod("a"))
    at.refuse("a")
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    (said,) = at.said("a")
    assert "Tenon bought 2 nodes for this pod" in said
    assert REFUSAL.rstrip(".") in said
    assert "until 2026-03-01T12:01:42Z" in said
    ((kind, name, reason, told),) = [event for event in at.recorder.events if event[2] == "NodesNotUsed"]
    assert (kind, name, reason) == ("NodePool", "default", "NodesNotUsed")
    assert "such as default/a" in told


async def test_sch018_pauses_grow_from_one_node_to_the_next() -> None:
    at = Buying(pod("a"))
    await at.buy()
    bought = [at.now]
    while len(bought) < 6:
        if at.undecided() and await at.buy():
            bought.append(at.now)
        at.now += timedelta(seconds=5)
    minutes = [(later - earlier).total_seconds() / 60 for earlier, later in pairwise(bought)]
    assert minutes[0] < 1
    assert all(2**n < pause < 2**n + 1 for n, pause in enumerate(minutes[1:])), minutes


async def test_sch018_other_pods_get_nodes_during_a_pause() -> None:
    at = Buying(pod("a"))
    await at.buy()
    await at.buy()
    at.view.add(pod("b", "2"))
    (claim,) = await at.buy()
    assert at.view.planned[claim] == {"uid-b"}


async def test_sch018_a_replica_that_comes_during_a_pause_hears_of_it() -> None:
    at = Buying(pod("a"))
    await at.buy()
    await at.buy()
    at.view.add(pod("a2"))
    assert await at.buy() == []
    assert "Tenon bought 2 nodes for this pod and pods like it" in at.said("a2")[0]
    assert at.undecided() == [], "they come back when the pause ends"


async def test_sch018_a_node_that_its_pods_or_others_use_does_not_count() -> None:
    at = Buying(pod("a"))
    for _ in range(4):
        (claim,) = await at.buy()
        at.view.used.add(claim)
    assert at.undecided() == ["a"]
    assert at.kept() == []


async def test_sch018_a_change_of_the_pod_or_a_nodepool_ends_a_pause() -> None:
    at = Buying(pod("a"))
    await at.buy()
    await at.buy()
    await at.buy()
    assert at.undecided() == []
    at.view.pods = [pod("a", "2")]
    assert at.undecided() == ["a"]
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    assert at.undecided() == []
    at.view.pools = [node_pool(generation=2)]
    assert at.undecided() == ["a"]
    assert len(await at.buy()) == 1


async def test_sch018_a_pod_that_is_placed_ends_a_pause() -> None:
    at = Buying(pod("a"))
    await at.buy()
    await at.buy()
    assert at.undecided() == ["a"]
    assert len(at.kept()) == 1
    at.view.pods = []
    assert at.undecided() == []
    assert at.kept() == []


async def test_sch018_the_next_leader_goes_on_with_a_pause() -> None:
    at = Buying(pod("a"))
    await at.buy()
    await at.buy()
    assert at.undecided() == ["a"]
    kept = at.kept()
    at.view.claims.clear()
    at.view.planned.clear()
    at.restart()
    assert await at.buy(pauses=kept) == []
    assert "Tenon bought 2 nodes" in at.said("a")[-1]
    at.now += timedelta(minutes=1)
    assert at.undecided() == ["a"]
    assert len(await at.buy(pauses=kept)) == 1
    assert at.undecided() == ["a"]
    assert at.kept()[0].nodes == 3


async def test_sch018_a_leader_without_memory_counts_the_nodes_that_still_exist() -> None:
    at = Buying(pod("a"))
    await at.buy()
    at.undecided()
    await at.buy()
    at.restart()
    assert await at.buy() == []


async def test_sch018_a_pod_waits_for_its_node_while_an_undeclared_taint_is_there() -> None:
    """A CNI removes its taint when it is ready. A second node would wait as long as the first."""
    at = Buying(pod("a"))
    (claim,) = await at.buy()
    at.view.tainted[claim] = "node.cilium.io/agent-not-ready"
    assert at.undecided() == []
    at.now += timedelta(minutes=4)
    assert at.undecided() == []
    del at.view.tainted[claim]
    at.view.existing = [node(claim)]
    assert await at.buy() == [], "the node has room as soon as the taint is gone"
    at.view.existing = []
    at.view.tainted[claim] = "node.cilium.io/agent-not-ready"
    at.now += timedelta(minutes=1)
    assert at.undecided() == ["a"], "the taint may stay for ever"


async def test_sch018_pods_that_leave_their_node_are_never_paused() -> None:
    at = Buying(replace(pod("a"), node_name="old"))
    await at.buy()
    await at.buy()
    assert at.batcher.paused(at.view.pods) == {}
