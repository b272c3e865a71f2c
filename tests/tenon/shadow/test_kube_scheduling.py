"""Pods go to ready nodes as kube-scheduler puts them: to the one with the most room, by taints and affinity."""

from __future__ import annotations

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
