"""What people are told of a plan: events on pods and NodePools."""

from __future__ import annotations

from dataclasses import replace

from tenon.apis import labels
from tenon.kube.requirements import Requirements
from tests.activities.provisioning.fake_view import UNREADY, node_class, node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import node, pod


async def test_evt03_pods_on_a_nodeclaim_without_a_node_are_nominated_to_the_nodeclaim() -> None:
    """Also in the batches after the one that bought it."""
    at = Setting(pod("late"))
    at.view.existing = [replace(node("default-abcdef"), requirements=Requirements(), initialized=False)]
    result = await at.planner.plan(BATCH)
    assert result.placed_on_existing == 1
    messages = {(name, reason): message for _, name, reason, message in at.recorder.events}
    assert messages[("late", "Nominated")] == "Pod should schedule on: nodeclaim/default-abcdef"


async def test_pods_that_fit_nowhere_hear_of_the_pools_that_launch_nothing() -> None:
    """SCH-007: the pool that would have taken them may be the one that is not ready."""
    claim = "its volume claim default/b does not exist: create it"
    at = Setting(pod("a", cpu="5000"), pod("b", unsupported=claim))
    at.view.classes["unready"] = node_class("unready", UNREADY)
    at.view.pools.append(node_pool("other", {"template/spec/nodeClassRef/name": "unready"}))
    await at.planner.plan(BATCH)
    events = {event[1]: event[3] for event in at.recorder.events}
    assert "NodePool default: " in events["a"]
    assert "NodePool other: EC2NodeClass unready is not ready" in events["a"]
    assert events["b"].startswith(f"No node is bought for the pod: {claim}; `"), "no pool could change that"
    reason = at.recorder.no_place["a"]
    assert [clause.pool for clause in reason.clauses] == ["default", "other"]
    assert str(reason) in events["a"], "programs get the same as people"


async def test_no_pool_at_all_leaves_every_pod_with_a_reason() -> None:
    at = Setting(pod("a"))
    at.view.pools = []
    result = await at.planner.plan(BATCH)
    assert (result.unschedulable, result.claims) == (1, [])
    ((kind, name, reason, message),) = at.recorder.events
    assert (kind, name, reason) == ("Pod", "a", "FailedScheduling")
    assert message


async def test_events_say_what_becomes_of_each_pod() -> None:
    """EVT-03: Nominated with the NodeClaim or the node, FailedScheduling with the reason."""
    at = Setting(pod("fits"), pod("bought", cpu="8"), pod("huge", cpu="5000"))
    at.view.existing = [node("n1", cpu="2")]
    result = await at.planner.plan(BATCH)
    messages = {(name, reason): message for _, name, reason, message in at.recorder.events}
    assert messages[("fits", "Nominated")] == "Pod should schedule on: node/n1"
    assert messages[("bought", "Nominated")] == f"Pod should schedule on: nodeclaim/{result.claims[0]}"
    assert "default" in messages[("huge", "FailedScheduling")]
    assert len(messages) == 3
    assert (result.pods, result.placed_on_existing, result.unschedulable) == (3, 1, 1)


async def test_evt03_a_pool_without_instance_types_is_named_on_the_pool_itself() -> None:
    """A user who reads the NodePool must find what its pods hear."""
    at = Setting(pod("a"))
    typo = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.gigantic"]}
    at.view.pools = [node_pool("typo", {"template/spec/requirements": [typo]}), node_pool("good")]
    await at.planner.plan(BATCH)
    ((name, message),) = [
        (name, message)
        for kind, name, reason, message in at.recorder.events
        if (kind, reason) == ("NodePool", "NoCompatibleInstanceTypes")
    ]
    assert name == "typo"
    assert message.startswith("No available instance type meets its requirement node.kubernetes.io/instance-type In")
