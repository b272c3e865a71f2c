"""Pods go to ready nodes as kube-scheduler puts them: to the one with the most room, by taints and affinity."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.resources import fits, subtract
from tenon.shadow.kube_scheduling import bind
from tenon.shadow.pods import WAITS, LivePod
from tests.tenon.scheduling.builders import need
from tests.tenon.shadow.models import BOOT, Steps, live


def with_nodes(count: int) -> Steps:
    """Nodes of 4 CPU with one pod of 3 CPU each, of which the pods then end."""
    steps = Steps()
    for number in range(count):
        steps.feed(live(f"web-{number}", cpu="3"))
        steps.pass_time(2)
    steps.pass_time(BOOT)
    steps.feed(ended=[f"uid-web-{number}" for number in range(count)])
    return steps


def node_of(steps: Steps, name: str) -> str:
    return steps.cluster.pods[f"uid-{name}"].node


def without_requests(name: str) -> LivePod:
    pod = live(name, kind="")
    return replace(pod, pod=replace(pod.pod, requests={"pods": 1}))


def asking(pod: LivePod, zone: str) -> LivePod:
    terms = (Requirements.of(need("topology.kubernetes.io/zone", "In", zone)),)
    return replace(pod, pod=replace(pod.pod, required_terms=terms))


def test_pods_go_to_the_emptiest_node() -> None:
    steps = with_nodes(3)
    steps.feed(*(live(f"api-{number}") for number in range(3)))
    assert bind(steps.cluster, steps.now) == 3
    assert len({node_of(steps, f"api-{number}") for number in range(3)}) == 3


def test_a_pod_that_fits_on_no_ready_node_waits_for_the_planner() -> None:
    steps = with_nodes(2)
    steps.feed(live("large", cpu="30"), live("small"))
    assert bind(steps.cluster, steps.now) == 1
    assert node_of(steps, "large") == WAITS


def test_taints_and_affinity_decide_too() -> None:
    steps = with_nodes(1)
    (node,) = steps.cluster.nodes.values()
    zone = node.offering[1]
    steps.feed(asking(live("here"), zone), asking(live("there"), "us-west-2x"))
    assert bind(steps.cluster, steps.now) == 1
    assert node_of(steps, "here") == node.name
    node.base = replace(node.base, taints=(Taint("team", "NoSchedule", "a"),))
    node._view = None
    steps.feed(live("untolerating"))
    assert bind(steps.cluster, steps.now) == 0


def test_a_pod_that_waits_for_a_new_node_takes_room_that_becomes_free_before() -> None:
    steps = with_nodes(1)
    (old,) = steps.cluster.nodes
    steps.feed(live("first", cpu="3", owner="Deployment/other"))
    bind(steps.cluster, steps.now)
    steps.feed(live("second", cpu="3"))
    steps.pass_time(2)
    assert node_of(steps, "second") not in (old, WAITS)
    steps.feed(ended=["uid-first"])
    assert bind(steps.cluster, steps.now) == 1
    assert node_of(steps, "second") == old


def test_a_node_whose_taint_asks_pods_to_stay_away_is_taken_last() -> None:
    """kube-scheduler's score TaintToleration weighs as much as the others together, unless the pod tolerates it."""
    steps = with_nodes(2)
    avoided, other = steps.cluster.nodes.values()
    avoided.base = replace(avoided.base, taints=(Taint("team", "PreferNoSchedule", "a"),))
    avoided._view = None
    steps.feed(live("api-0", cpu="1"), live("api-1", cpu="1"))
    bind(steps.cluster, steps.now)
    assert {node_of(steps, "api-0"), node_of(steps, "api-1")} == {other.name}


def test_pods_without_requests_take_room_in_the_score() -> None:
    """Kubernetes counts 100m and 200Mi for each, so that the next one goes to the other node."""
    steps = with_nodes(2)
    for number in range(6):
        steps.feed(without_requests(f"idle-{number}"))
        bind(steps.cluster, steps.now)
    hosts = Counter(node_of(steps, f"idle-{number}") for number in range(6))
    assert set(hosts.values()) == {3}


def test_pods_of_a_job_are_not_spread() -> None:
    """Only those of ReplicaSets, ReplicationControllers and StatefulSets are. So the larger node takes most of them."""
    steps = with_nodes(2)
    _, large = steps.cluster.nodes.values()
    large.base = replace(large.base, allocatable={name: 4 * units for name, units in large.base.allocatable.items()})
    large._view = None
    for kind, expected in (("Job", 5), ("ReplicaSet", 3)):
        names = [f"{kind.lower()}-{number}" for number in range(5)]
        for name in names:
            steps.feed(live(name, cpu="100m", kind=kind, owner=f"{kind}/{kind.lower()}"))
            bind(steps.cluster, steps.now)
        assert sum(node_of(steps, name) == large.name for name in names) == expected
        steps.feed(ended=[f"uid-{name}" for name in names])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(100, 3900), max_size=25))
def test_no_node_gets_more_than_it_has_and_no_pod_waits_beside_room(sizes: list[int]) -> None:
    steps = with_nodes(3)
    steps.feed(*(live(f"api-{number}", cpu=f"{size}m") for number, size in enumerate(sizes)))
    bind(steps.cluster, steps.now)
    assert not steps.cluster.faults()
    free = []
    for node in steps.cluster.nodes.values():
        engine_node = node.seen_by_engine(steps.now)
        assert all(units <= engine_node.allocatable.get(name, 0) for name, units in engine_node.used.items())
        free.append(subtract(engine_node.allocatable, engine_node.used))
    for pod in steps.cluster.waiting():
        assert not any(fits(pod.live.pod.requests, room) for room in free)
