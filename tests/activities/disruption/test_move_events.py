"""What events say of a pass: why nodes stay, and which moves Balanced approved."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

from activities.disruption.move_events import TASK
from activities.disruption.repair_policies import RepairPolicies
from activities.disruption.repair_source import no_repair, stated_repair
from tenon.disruption.decision import BalancedVerdict, DisruptionBlocked
from tenon.evolve import evolve
from tenon.kube.records import NodeCondition
from tenon.kube.timestamps import time_text
from tenon.messages.disruption import OpenCommand
from tests.activities.disruption.move_setting import Setting, scripted
from tests.activities.provisioning.fake_view import START


async def events_of(at: Setting) -> list[tuple[str, str, str, str]]:
    """The events of a pass."""
    await at.run_pass()
    await asyncio.gather(*(task for task in asyncio.all_tasks() if task.get_name() == TASK))
    return at.recorder.events


async def test_n15_127_n15_562_stopped_repair_is_said_on_the_node_the_nodeclaim_and_the_nodepool() -> None:
    """Only on nodes that are due. Nothing is said without node repair."""
    names = [f"n{number}" for number in range(5)]
    for repair, expected in ((stated_repair(lambda: RepairPolicies([]), list, reboots=False), 3), (no_repair, 0)):
        at = Setting(*names, methods=[scripted()], repair=repair)
        due = NodeCondition("StorageReady", "False", START.timestamp())
        young = NodeCondition("KernelReady", "False", (START + timedelta(minutes=59)).timestamp())
        at.view.managed[0] = replace(at.view.managed[0], node="node-0", unhealthy=(due,))
        at.view.managed[1] = replace(at.view.managed[1], node="node-1", unhealthy=(young,))
        at.view.managed[2:] = [replace(node, node=f"node-{node.claim}") for node in at.view.managed[2:]]
        events = await events_of(at) if expected else []
        text = "More than 20% of the nodes of NodePool default are unhealthy"
        subjects = [("NodeClaim", "n0"), ("Node", "node-0"), ("NodePool", "default")]
        assert events == [(*about, "NodeRepairBlocked", text) for about in subjects][:expected]
        if expected:
            assert at.recorder.uids["Node", "node-0"] == "uid-of-node-0", "kubectl describe finds it by UID only"


async def test_evt02_a_node_that_consolidation_leaves_says_why() -> None:
    """EVT-02: on its NodeClaim, and on its Node as soon as it has one."""
    at = Setting("a", "b", methods=[scripted(unconsolidatable={"a": "the price is unknown", "gone": "it is gone"})])
    assert await events_of(at) == [("NodeClaim", "a", "Unconsolidatable", "The price is unknown")]
    at = Setting("a", "b", methods=[scripted(unconsolidatable={"a": "the price is unknown"})])
    at.view.managed[0] = replace(at.view.managed[0], node="node-a")
    assert await events_of(at) == [
        ("NodeClaim", "a", "Unconsolidatable", "The price is unknown"),
        ("Node", "node-a", "Unconsolidatable", "The price is unknown"),
    ]
    assert at.recorder.uids == {("NodeClaim", "a"): "uid-a", ("Node", "node-a"): "uid-of-node-a"}


async def test_evt02_a_node_bought_in_a_shortage_says_so_when_it_cannot_leave() -> None:
    pod_holds_it = DisruptionBlocked(
        "its node drifted", "pod default/web: annotation karpenter.sh/do-not-disrupt protects it"
    )
    at = Setting("a", "b", methods=[scripted(blocked={"a": pod_holds_it}, unconsolidatable={"b": "it is cheap"})])
    at.view.managed[0] = replace(at.view.managed[0], bought_in_shortage=True, node="node-a")
    text = f"It was bought in a capacity shortage, and Tenon cannot replace it: {pod_holds_it}"
    assert await events_of(at) == [
        ("NodeClaim", "a", "DisruptionBlocked", text),
        ("Node", "node-a", "DisruptionBlocked", text),
        ("NodeClaim", "b", "Unconsolidatable", "It is cheap"),
    ]
    assert at.finder.why_blocked() == {"a": pod_holds_it}, "rollouts ask for it"


async def test_evt02_a_move_that_balanced_approved_says_its_score() -> None:
    verdicts = (
        BalancedVerdict("default", ("a",), 0.8, approved=True, savings=0.08, disruption=0.1),
        BalancedVerdict("default", ("a", "b"), 2.0, approved=True, savings=0.5, disruption=0.25),
        BalancedVerdict("default", ("b",), 0.2, approved=False),
    )
    of_node, of_pool = "(k: 2, savings 8.0%, disruption 10.0%)", "(k: 2, savings 50.0%, disruption 25.0%)"
    at = Setting("a", "b", methods=[scripted(verdicts=verdicts)])
    at.view.managed[0] = replace(at.view.managed[0], node="node-a")
    assert await events_of(at) == [
        ("NodeClaim", "a", "ConsolidationApproved", f"score 0.80 >= threshold 0.50 {of_node}"),
        ("Node", "node-a", "ConsolidationApproved", f"score 0.80 >= threshold 0.50 {of_node}"),
        ("NodePool", "default", "ConsolidationApproved", f"score 2.00 >= threshold 0.50 {of_pool}"),
    ]


async def test_a_rollout_hears_which_nodes_a_refusal_keeps_and_events_do_not() -> None:
    """Other nodes are tried in their place. A node whose command waits for an answer keeps its place in the wave."""
    at = Setting("a", "b", methods=[scripted()])
    waiting = OpenCommand(
        command="drifted-1", reason="Drifted", pool="default", until=START, since=START, awaits_approval=True
    )
    refused = evolve(waiting, command="drifted-2", awaits_approval=False, postponed=True, refused="ann refused it")
    at.finder.start(at.view.managed, {"a": waiting, "b": refused})
    assert at.finder.why_blocked()["b"].why == (
        f"it is left alone until {time_text(START)}, because ann refused it (command drifted-2)"
    )
    assert set(at.finder.why_blocked()) == {"b"}
    assert at.recorder.events == []
    at.finder.start(at.view.managed, {"a": waiting})
    assert at.finder.why_blocked() == {}, "the refusal is over"
    at.finder.close()
