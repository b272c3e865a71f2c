"""Nodes that become ready without the pods that they were bought for: pauses, events, and what ends them (SCH-018)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from activities.provisioning.pause_reporting import MAX_REFUSALS_READ
from tenon.apis import labels
from tenon.kube.pod import LocalDisk, Pod
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.requirements import Requirements
from tenon.kube.selectors import LabelSelector
from tenon.messages.provisioning import BatchSummary, PlanInput, PurchasePause
from tests.activities.provisioning.fake_view import node_pool
from tests.activities.provisioning.setting import Setting
from tests.tenon.scheduling.builders import need, node, pod, replicas

REFUSAL = "0/3 nodes are available: 3 Insufficient ephemeral-storage."
PAST_BINDING = timedelta(seconds=21)


APART = PodRules(anti_affinity=(PodTerm(labels.HOSTNAME, LabelSelector((("app", "In", ("b",)),))),))


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
        plan = await self.planner.plan(PlanInput(cluster="c", batch=self.batch, pauses=pauses or []))
        for name in plan.claims:
            uids = self.view.planned[name]
            self.view.claim(name, *uids, initialized_at=self.now, batch=self.batch)
        self.now += PAST_BINDING
        return plan.claims

    def undecided(self) -> list[str]:
        return [name.name for name in self.batcher.undecided()]

    def kept(self) -> list[PurchasePause]:
        """What the workflow would hand to the next leader."""
        return BatchSummary.model_validate_json(BatchSummary(pauses=self.batcher.pauses()).model_dump_json()).pauses

    def said(self, name: str) -> list[str]:
        return [event[3] for event in self.recorder.events if event[1:3] == (name, "FailedScheduling")]


async def test_sch070_a_pod_whose_local_volume_is_lost_gets_two_nodes_at_most_and_says_why() -> None:
    at = Buying(pod("a", local_disks=(LocalDisk("disk", "default/data", frozenset({"gone"})),)))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    nominated = [event[3] for event in at.recorder.events if event[1:3] == ("a", "Nominated")]
    assert len(nominated) == 2
    for message in nominated:
        assert "its local volume disk is on Node gone, which is gone or leaving" in message
        assert "the claim default/data has been deleted and created again" in message
    assert "Tenon bought 2 nodes for this pod" in at.said("a")[-1]


async def test_sch018_two_nodes_without_their_pod_pause_and_the_pod_says_so() -> None:
    at = Buying(pod("a"))
    at.refuse("a")
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    (text,) = at.said("a")
    assert "Tenon bought 2 nodes for this pod" in text
    assert REFUSAL.rstrip(".") in text
    assert "until 2026-03-01 12:01:42 UTC" in text
    ((kind, name, reason, events),) = [event for event in at.recorder.events if event[2] == "NodesNotUsed"]
    assert (kind, name, reason) == ("NodePool", "default", "NodesNotUsed")
    assert "such as default/a" in events


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


async def test_sch018_replicas_on_nodes_of_their_own_pause_together() -> None:
    """Ten nodes are bought at once. None of the ten is bought again before the first pause is over."""
    apart = PodRules(anti_affinity=(PodTerm("kubernetes.io/hostname", LabelSelector((("app", "In", ("w",)),))),))
    at = Buying(*(replace(replica, labels={"app": "w"}, rules=apart) for replica in replicas(10)))
    assert [len(await at.buy()) for _ in range(2)] == [10, 0]
    assert "Tenon bought 10 nodes" in at.said("p-0")[0]
    assert at.kept()[0].pauses == 1


async def test_sch018_a_pod_that_is_created_again_while_its_group_waits_gets_no_further_node() -> None:
    """A StatefulSet makes its pod again under the same name, and a Job under another one."""
    at = Buying(pod("db-0"), pod("db-1"))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    at.view.pods = [replace(pod("db-0"), uid="uid-again"), replace(pod("db-7"), uid="uid-seventh")]
    assert await at.buy() == []
    assert "Tenon bought 2 nodes" in at.said("db-7")[-1]


@pytest.mark.parametrize(
    "other",
    [
        pod("b", "2"),
        replace(pod("b"), namespace="team"),
        replace(pod("b"), labels={"app": "b"}, rules=APART),
        replace(pod("b"), volume_terms=(Requirements.of(need(labels.ZONE, "In", "us-west-2a")),)),
    ],
    ids=["another size", "another namespace", "another rule", "another volume"],
)
async def test_sch018_two_groups_are_refused_and_paused_each_for_itself(other: Pod) -> None:
    at = Buying(pod("a"))
    assert len(await at.buy()) == 1
    at.view.add(other)
    bought: Counter[str] = Counter()
    for _ in range(4):  # the first pause lasts a minute, and each turn 21 seconds
        for claim in await at.buy():
            bought.update(at.view.planned[claim])
    assert bought == {"uid-a": 1, other.uid: 2}
    assert "Tenon bought 2 nodes" in at.said("a")[-1]
    assert "Tenon bought 2 nodes" in at.said("b")[-1]


async def test_sch018_a_replica_that_comes_during_a_pause_hears_of_it() -> None:
    at = Buying(pod("a"))
    await at.buy()
    await at.buy()
    at.view.add(pod("a2"))
    assert await at.buy() == []
    assert "Tenon bought 2 nodes for this pod and pods like it" in at.said("a2")[0]
    assert at.undecided() == [], "they come back when the pause ends"


async def test_sch018_a_plan_asks_why_kube_scheduler_refuses_a_few_groups_only() -> None:
    """Each costs a request, and the pods of other groups wait meanwhile."""
    apart = PodRules(anti_affinity=(PodTerm("kubernetes.io/hostname", LabelSelector((("app", "In", ("w",)),))),))
    at = Buying(*(replace(pod(f"p-{n}", str(n)), labels={"app": "w"}, rules=apart) for n in range(1, 16)))
    for number in range(1, 16):
        at.refuse(f"p-{number}")
    assert [len(await at.buy()) for _ in range(3)] == [15, 15, 0]
    names = [at.said(f"p-{number}")[0] for number in range(1, 16)]
    assert sum(REFUSAL.rstrip(".") in sentence for sentence in names) == MAX_REFUSALS_READ
    assert all("Tenon bought 2 nodes for this pod" in sentence for sentence in names)


async def test_sch018_a_node_that_its_pods_or_others_use_does_not_count() -> None:
    at = Buying(pod("a"))
    for _ in range(4):
        (claim,) = await at.buy()
        at.view.used.add(claim)
    assert at.undecided() == ["a"]
    assert at.kept() == []


@pytest.mark.parametrize(("batch", "ready"), [(0, True), (7, False)], ids=["a-replacement", "not-ready"])
async def test_sch018_only_ready_nodes_that_a_batch_bought_count(batch: int, ready: bool) -> None:
    """A replacement is bought before its pods may come, and no pod can run on a node that is not ready."""
    at = Buying(pod("a"))
    for name in ("one", "two"):
        at.view.claim(name, "uid-a", batch=batch, initialized_at=at.now if ready else None)
    assert at.batcher.count_unused_nodes(at.view.pods) == {}
    assert at.kept() == []


async def test_sch018_nodes_on_which_the_pods_still_fit_do_not_count() -> None:
    """kube-scheduler may be slow. Nothing is bought again, so no node was bought in vain."""
    at = Buying(pod("a"))
    (claim,) = await at.buy()
    at.view.existing = [node(claim)]
    for _ in range(4):
        assert await at.buy() == []
    assert at.kept() == []


async def test_sch018_paused_pods_take_room_that_exists() -> None:
    at = Buying(pod("a"))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    at.view.existing = [node("roomy")]
    at.view.add(pod("a2"))
    assert await at.buy() == []
    assert at.said("a2") == []
    assert at.batcher.nominated_nodes() == {"roomy"}


async def test_sch018_a_pause_names_its_pods_and_what_kube_scheduler_says() -> None:
    """`tenon node list --blocked` asks the workflow, which knows only what a pause says."""
    at = Buying(*replicas(5))
    at.refuse("p-0")
    while len(await at.buy()):
        pass
    (pause,) = at.kept()
    assert (pause.pods, pause.waiting) == (["default/p-0", "default/p-1", "default/p-2"], 5)
    assert pause.refusal == REFUSAL
    at.view.pods = at.view.pods[3:]
    assert at.undecided() == []
    (pause,) = at.kept()
    assert (pause.pods, pause.waiting, pause.refusal) == (["default/p-3", "default/p-4"], 2, REFUSAL)


async def test_sch018_a_pause_that_a_changed_nodepool_ends_is_not_kept_as_open() -> None:
    at = Buying(pod("a"))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    assert at.kept()[0].until is not None
    at.view.pools = [node_pool(generation=2)]
    assert at.undecided() == ["a"]
    assert at.kept()[0].until is None


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
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    assert len(at.kept()) == 1
    purchase_pauses = at.kept()
    at.view.pods = []
    assert at.undecided() == []
    assert at.kept() == []
    at.view.pods = [pod("a")]
    assert len(await at.buy(pauses=purchase_pauses)) == 1, "what the workflow still says is older"


async def test_sch018_the_next_leader_goes_on_with_a_pause() -> None:
    at = Buying(pod("a"))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    purchase_pauses = at.kept()
    at.view.claims.clear()
    at.view.planned.clear()
    at.restart()
    assert await at.buy(pauses=purchase_pauses) == []
    assert "Tenon bought 2 nodes" in at.said("a")[-1]
    at.now += timedelta(minutes=1)
    assert at.undecided() == ["a"]
    assert len(await at.buy(pauses=purchase_pauses)) == 1
    assert await at.buy() == []
    assert at.kept()[0].nodes == 3


async def test_sch018_a_leader_without_memory_counts_the_nodes_that_still_exist() -> None:
    at = Buying(pod("a"))
    await at.buy()
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


async def test_sch018_pods_that_leave_their_node_do_not_count_nodes() -> None:
    """A drain may hold them for hours while the node that was bought for them is ready."""
    at = Buying(replace(pod("a"), node_name="old"))
    assert len(await at.buy()) == 1
    assert at.batcher.count_unused_nodes(at.view.pods) == {}
    assert at.kept() == []


async def test_sch018_pods_that_leave_their_node_get_nodes_during_a_pause_of_pods_like_them() -> None:
    """They run, so kube-scheduler has placed such pods. A pause would hold up the drain."""
    at = Buying(pod("a"))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    at.view.add(replace(pod("a2"), node_name="old"))
    (claim,) = await at.buy()
    assert at.view.planned[claim] == {"uid-a2"}


async def test_sch018_a_pod_that_was_placed_at_last_and_leaves_its_node_is_planned_during_the_pause() -> None:
    """Others like it still wait. It needs another node at once."""
    at = Buying(pod("a"), pod("a2"))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    at.view.claims.clear()
    at.view.pods = [replace(pod("a"), node_name="old"), pod("a2")]
    assert at.undecided() == ["a"]


async def test_sch018_nodes_for_a_buffer_do_not_count() -> None:
    """They stay free on purpose: a buffer has no pods that kube-scheduler could place."""
    at = Buying(replace(pod("a"), buffer="default/spare"))
    for name in ("one", "two"):
        at.view.claim(name, "uid-a", batch=7, initialized_at=at.now)
    assert at.batcher.count_unused_nodes(at.view.pods) == {}
    assert at.kept() == []


async def test_sch018_a_pause_forgets_the_names_of_nodes_that_are_gone_but_not_their_number() -> None:
    """The workflow keeps it, and the pods may wait for months."""
    at = Buying(pod("a"))
    assert [len(await at.buy()) for _ in range(3)] == [1, 1, 0]
    at.view.claims.clear()
    at.view.planned.clear()
    assert at.undecided() == []
    (purchase_pause,) = at.kept()
    assert (purchase_pause.nodes, purchase_pause.claims) == (2, [])


async def test_sch018_a_pod_that_waits_beside_a_node_where_it_should_fit_says_so() -> None:
    """A scheduler plugin may keep it away. Tenon buys nothing, so the event is all that there is to see."""
    at = Buying(pod("a"))
    at.refuse("a")
    at.view.existing = [node("node-1")]
    began = at.now
    while at.now - began < timedelta(minutes=3):
        assert await at.buy() == []
        assert at.said("a") == []
    await at.buy()
    await at.buy()
    assert set(at.said("a")) == {
        "Tenon expects that the pod fits on node node-1 and buys no node for it, but kube-scheduler has not placed it "
        f'there since 2026-03-01 12:00:00 UTC: "{REFUSAL.rstrip(".")}"'
    }, "the same words each time, which make one event"


async def test_sch018_a_pod_on_its_way_to_a_starting_node_is_not_refused_there() -> None:
    at = Buying(pod("a"))
    at.view.existing = [replace(node("node-1"), initialized=False)]
    for _ in range(15):
        assert await at.buy() == []
    assert at.said("a") == []
