"""Local volumes: a waiting pod uses the node with its disk, and any node once that machine is gone (SCH-070)."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis import labels
from tenon.kube.pod import LocalDisk, Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Node, Plan
from tenon.scheduling.pods.local_disks import lost_disks
from tests.tenon.scheduling.builders import ZONES, need, node, pool, problem
from tests.tenon.scheduling.builders import pod as plain_pod

FULL: dict[str, Any] = {"used": {"cpu": 4000}}
BUSY = " is on Node a, which cannot take the pod now: make room there"


def stored(name: str, *hosts: str, **more: Any) -> Pod:
    """A pod with one local volume for each host."""
    disks = tuple(LocalDisk(f"disk-{host}", f"default/data-{host}", frozenset({host})) for host in hosts)
    return plain_pod(name, local_disks=disks, **more)


def there(name: str = "a", **more: Any) -> Node:
    return node(name, labels={labels.HOSTNAME: name}, **more)


def places(plan: Plan) -> dict[str, str]:
    on_nodes = {pod.name: name for name, pods in plan.placements.items() for pod in pods}
    return on_nodes | {pod.name: "new" for claim in plan.claims for pod in claim.pods}


@pytest.mark.parametrize(
    ("pods", "nodes", "expected"),
    [
        ([stored("p", "b")], [there("a"), there("b")], {"p": "b"}),
        ([stored("p", "b"), stored("q", "c")], [there(name) for name in "abc"], {"p": "b", "q": "c"}),
        ([stored("p", "b"), plain_pod("q")], [there("b", cpu="1")], {"p": "b", "q": "new"}),
        ([stored("p", "gone")], [there("a", **FULL)], {"p": "new"}),
        ([stored("p", "a")], [there("a", closed=True)], {"p": "new"}),
        ([stored("p", "a", node_name="a")], [there("a", closed=True), there("b")], {"p": "b"}),
        ([stored("p", "a", "gone")], [there("a"), there("b")], {"p": "a"}),
        ([stored("p", "host-1")], [node("n", labels={labels.HOSTNAME: "host-1"}), there("a")], {"p": "n"}),
        (
            [stored("p", "b", volume_terms=(Requirements.of(need(labels.ZONE, "In", ZONES[0])),))],
            [there("a"), there("b")],
            {"p": "b"},
        ),
    ],
    ids=[
        "its node",
        "each its own node",
        "its node first, others buy",
        "the machine is gone",
        "the machine is leaving",
        "the pod must leave the machine",
        "one of two disks is gone",
        "by the label, not the name of the node",
        "a second volume in the zone",
    ],
)
def test_sch070_pods_go_where_their_local_volumes_are(
    pods: list[Pod], nodes: list[Node], expected: dict[str, str]
) -> None:
    plan = solve(problem(pods, pool(), nodes=nodes))
    assert places(plan) == expected
    assert not plan.unschedulable
    planned = [pod for placed in (*plan.placements.values(), *(claim.pods for claim in plan.claims)) for pod in placed]
    assert sorted(planned, key=lambda pod: pod.name) == pods, "as they were given"


@pytest.mark.parametrize(
    ("pod", "nodes", "reason"),
    [
        (stored("p", "a"), [there(**FULL), there("b")], "its local volume disk-a" + BUSY),
        (stored("p", "a"), [there(taints=(Taint("x", "NoSchedule"),))], "its local volume disk-a" + BUSY),
        (stored("p", "a", "b"), [there("a"), there("b")], "its local volume disk-a" + BUSY),
        (stored("p", "a", cpu="64"), [there(cpu="4")], "delete the claim default/data-a and create it again"),
    ],
    ids=["no room", "a taint", "disks on two nodes", "larger than the node"],
)
def test_sch070_nothing_is_bought_while_the_node_with_the_disk_is_there(
    pod: Pod, nodes: list[Node], reason: str
) -> None:
    plan = solve(problem([pod], pool(), nodes=nodes))
    assert not places(plan)
    assert reason in str(plan.unschedulable["default/p"])


def test_sch070_a_disk_on_a_machine_that_is_gone_is_named() -> None:
    pods = [stored("a", "a"), stored("lost", "gone"), stored("leaves", "gone", node_name="gone"), plain_pod("plain")]
    assert lost_disks(problem(pods, pool(), nodes=[there("a")])) == {
        "default/lost": "its local volume disk-gone is on Node gone, which is gone or leaving: kube-scheduler places "
        "the pod only after the claim default/data-gone has been deleted and created again"
    }
