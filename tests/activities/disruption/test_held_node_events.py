"""Which nodes get an event because something keeps emptiness and consolidation away from them."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from activities.disruption.held_node_events import MOST, REPEAT_SECONDS, REPORT_SECONDS
from activities.disruption.repair_policies import RepairPolicies
from activities.disruption.repair_source import no_repair, stated_repair
from tenon.kube.records import NodeCondition
from tenon.messages.disruption import AwaitDisruptionInput
from tests.activities.disruption.disruption_setting import Setting, managed
from tests.activities.provisioning.fake_view import START

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

ANNOTATION = 'the "karpenter.sh/do-not-consolidate" annotation of its NodeClaim'
BY_ANNOTATION = f"Disruption is blocked: {ANNOTATION} protects it"
DAEMON = "pod ns/agent: annotation karpenter.sh/do-not-disrupt protects it"


async def events(at: Setting, seconds: float = REPORT_SECONDS) -> list[tuple[str, str, str, str]]:
    await at.disruptor.await_candidates(AwaitDisruptionInput(cluster="c", wait_seconds=seconds))
    return at.recorder.events


async def test_dis11_dis15_a_node_that_an_annotation_keeps_from_consolidation_says_so() -> None:
    """On its NodeClaim and its Node. A Node that is gone has none."""
    at = Setting(
        managed("a", empty=False, protected_by=ANNOTATION, node="node-a"), managed("b", protected_by=ANNOTATION)
    )
    subjects = [("NodeClaim", "a"), ("Node", "node-a"), ("NodeClaim", "b")]
    assert await events(at) == [(*about, "DisruptionBlocked", BY_ANNOTATION) for about in subjects]
    assert at.recorder.uids["Node", "node-a"] == "uid-of-node-a"


async def test_dis15_a_held_node_that_was_bought_in_a_shortage_says_so() -> None:
    at = Setting(managed("a", empty=False, protected_by=ANNOTATION, bought_in_shortage=True))
    text = f"It was bought in a capacity shortage, and Tenon cannot replace it: {BY_ANNOTATION}"
    assert await events(at) == [("NodeClaim", "a", "DisruptionBlocked", text)]


async def test_dis13_dis15_an_empty_node_kept_by_a_daemonset_pod_says_so_when_due() -> None:
    at = Setting(managed("a", held_by=DAEMON))
    assert await events(at, 59.0) == []
    text = "It is empty, but pod ns/agent: annotation karpenter.sh/do-not-disrupt protects it"
    assert await events(at, 2 * REPORT_SECONDS) == [("NodeClaim", "a", "DisruptionBlocked", text)]


async def test_dis15_what_no_method_would_take_or_a_pass_reports_gets_no_such_event() -> None:
    """What drifted, leaves, is not ready for disruption, or belongs to a NodePool that keeps its nodes."""
    at = Setting(
        managed("drifted", protected_by=ANNOTATION, drifted=True),
        managed("leaves", protected_by=ANNOTATION, leaving=True),
        managed("starts", protected_by=ANNOTATION, initialized=False),
        managed("held", empty=False, held_by=DAEMON),
        managed("recent", held_by=DAEMON, quiet_since=START + timedelta(hours=1)),
    )
    assert await events(at) == []
    at = Setting(managed("a", protected_by=ANNOTATION), after="Never")
    assert await events(at) == []


async def test_dis15_many_nodes_get_their_events_in_turns_and_rarely_again() -> None:
    """Thousands of events at once would delay the writes that nodes wait for."""
    names = [f"n{number:03}" for number in range(MOST + 5)]
    at = Setting(*(managed(name, protected_by=ANNOTATION) for name in names))
    assert len(await events(at, REPORT_SECONDS / 2)) == MOST
    assert sorted(event[1] for event in await events(at, 2 * REPORT_SECONDS)) == names
    await events(at, REPEAT_SECONDS + 2 * REPORT_SECONDS)
    assert set(Counter(event[1] for event in at.recorder.events).values()) == {2}


async def test_n15_124_an_unhealthy_node_without_a_nodepool_says_that_it_is_not_repaired() -> None:
    """Once its fault is due, and only with node repair."""
    broken = NodeCondition("StorageReady", "False", (START - timedelta(hours=1)).timestamp())
    young = NodeCondition("StorageReady", "False", START.timestamp())
    text = "Its node is unhealthy (StorageReady is False), but repair requires a NodePool, and it has none"
    for repair, expected in (
        (
            stated_repair(lambda: RepairPolicies([]), list, reboots=False),
            [("NodeClaim", "alone", "DisruptionBlocked", text)],
        ),
        (no_repair, []),
    ):
        at = Setting(repair=repair)
        at.view.alone = [
            managed("alone", pool="", empty=False, unhealthy=(broken,)),
            managed("young", pool="", empty=False, unhealthy=(young,)),
        ]
        assert await events(at) == expected
