"""The step "bind pods": which planned pods are bound, and when."""

from __future__ import annotations

import asyncio
import sys

import pytest

from activities.node import binding
from activities.node.binding import bind
from activities.node.initialization import InitializedNode, initialized_node
from activities.node.registration import register
from activities.node.startup_cordon import remove_startup_cordon
from tests.activities.node.joining import WANTED, at_once, initialize, joined, planned
from tests.activities.node.world import DISRUPTED, UNREGISTERED, World, pod
from tests.workflows.waiting import until


async def test_planned_pods_are_bound_once() -> None:
    """Rule: only pods planned for this claim; a repetition answers the same and binds nothing again."""
    world = World().put_live().put_pods(pod("a", on=""), pod("b", on=""), pod("stranger", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    for _ in range(2):
        result = await bind(world.kube, WANTED, at_once)
        assert (result.bound, result.planned, result.for_scheduler) == (2, 2, 0)
    assert [call for call in world.kube.calls if call[0] == "bind"] == [
        ("bind", "a", "node-1"),
        ("bind", "b", "node-1"),
    ]
    stranger = world.kube.objects[("pods", "default", "stranger")]
    assert "nodeName" not in stranger["spec"]


async def test_no_pod_is_bound_before_watches_show_the_node() -> None:
    """Controllers that still see karpenter.sh/unregistered:NoExecute would evict the pod, and a kubelet refuse it."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.kube.watched = int(world.node["metadata"]["resourceVersion"])
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.planned, result.for_scheduler) == (0, 1, 1), (
        "kube-scheduler binds by what it has been told"
    )
    assert not [call for call in world.kube.calls if call[0] == "bind"]
    assert not world.node["spec"].get("unschedulable")
    world.kube.watched = int(world.node["metadata"]["resourceVersion"])
    assert (await bind(world.kube, WANTED, at_once)).bound == 1


async def test_binding_waits_for_watches_to_show_the_node_but_not_forever() -> None:
    """In a burst they are some seconds behind. If kube-scheduler spread the pods, other pods would lose their room."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.kube.watched = int(world.node["metadata"]["resourceVersion"])
    world.kube.watched_next = [world.kube.watched, sys.maxsize]
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    assert (await bind(world.kube, WANTED, at_once)).bound == 1
    assert not world.node["spec"].get("unschedulable")


async def test_without_a_startup_cordon_late_watches_leave_the_pods_to_the_scheduler() -> None:
    """kube-scheduler, whose watch is as late, may assign the same room, and the kubelet would refuse the excess."""
    world = World().put_live().put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.kube.watched = int(world.node["metadata"]["resourceVersion"]) - 1
    world.kube.watched_next = [sys.maxsize]
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.for_scheduler) == (0, 1)


async def test_a_startup_cordon_that_has_gone_since_leaves_the_pods_to_the_scheduler() -> None:
    """From then on kube-scheduler uses the node."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    initialized = await initialized_node(world.kube, WANTED, world.clock)
    assert isinstance(initialized, InitializedNode)
    await remove_startup_cordon(world.kube, world.node)
    result = await bind(world.kube, WANTED, at_once, initialized=initialized)
    assert (result.bound, result.for_scheduler) == (0, 1)


async def test_a_startup_cordon_stays_until_a_watch_has_shown_the_bound_pods() -> None:
    """kube-scheduler, whose watch is late too, would assign their room again, and the kubelet refuse those pods."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""), pod("b", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    world.kube.shows_pods = False
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    moment = Moment(world)
    step = asyncio.create_task(bind(world.kube, WANTED, moment))

    async def both_bound() -> bool:
        return len([call for call in world.kube.calls if call[0] == "bind"]) == 2

    await until(both_bound)
    assert (moment.times, world.node["spec"].get("unschedulable")) == (0, True)
    world.kube.show_pods()
    assert (await step).bound == 2
    assert (moment.times, world.node["spec"].get("unschedulable")) == (1, None)


async def test_a_startup_cordon_goes_although_no_watch_shows_the_bound_pods(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(binding, "SHOWN_WITHIN", 0.0)
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.kube.shows_pods = False
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    moment = Moment(world)
    assert (await bind(world.kube, WANTED, moment)).bound == 1
    assert (moment.times, world.node["spec"].get("unschedulable")) == (1, None)
    assert "may not know the bound pods of a node" in caplog.text


async def test_other_pods_of_the_workload_are_counted_when_they_took_the_room() -> None:
    """The planned pods were replaced while the node started: the node is full, although none of its own runs there."""
    world = joined(UNREGISTERED).put_pods(pod("new-a", on=""), pod("new-b", on=""), pod("agent", owner="DaemonSet"))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)

    async def scheduler() -> None:
        assert not world.node["spec"].get("unschedulable")
        for name in ("new-a", "new-b"):
            world.kube.objects[("pods", "default", name)]["spec"]["nodeName"] = "node-1"

    result = await bind(world.kube, WANTED, scheduler)
    assert (result.bound, result.planned, result.for_scheduler, result.running) == (0, 2, 0, 2)


async def test_pods_next_to_the_planned_ones_are_counted_too() -> None:
    world = World().put_live().put_pods(pod("a", on=""), pod("other"))
    planned(world, "default/a=uid-a")
    assert (await bind(world.kube, WANTED, at_once)).running == 2


class Moment:
    """The moment that kube-scheduler is given, and what it does with it."""

    def __init__(self, world: World, **placed: str) -> None:
        self.world = world
        self.placed = placed
        self.times = 0

    async def __call__(self) -> None:
        self.times += 1
        for name, on in self.placed.items():
            self.world.kube.objects[("pods", "default", name)]["spec"]["nodeName"] = on


async def test_what_the_scheduler_placed_in_its_moment_is_not_bound_again() -> None:
    world = World().put_live().put_pods(*(pod(name, on="") for name in "abc"))
    planned(world, "default/a=uid-a", "default/b=uid-b", "default/c=uid-c")
    moment = Moment(world, a="node-1", b="node-2")
    result = await bind(world.kube, WANTED, moment)
    assert moment.times == 1
    assert (result.bound, result.planned, result.for_scheduler) == (2, 3, 0)
    assert [call for call in world.kube.calls if call[0] == "bind"] == [("bind", "c", "node-1")]


async def test_the_scheduler_gets_no_moment_when_no_planned_pod_waits() -> None:
    """Placed here, placed elsewhere, gone, ended, or another pod of the name: there is nothing to wait for."""
    world = World().put_live().put_pods(pod("here"), pod("away", on="node-2"), pod("new", on=""), pod("done", on=""))
    world.kube.objects[("pods", "default", "done")]["status"]["phase"] = "Failed"
    names = ("here", "away", "gone", "done")
    planned(world, *(f"default/{name}=uid-{name}" for name in names), "default/new=older")
    moment = Moment(world)
    result = await bind(world.kube, WANTED, moment)
    assert moment.times == 0
    assert (result.bound, result.planned, result.for_scheduler) == (1, 5, 0)
    assert world.kube.calls == []


async def test_a_node_that_begins_to_leave_in_the_schedulers_moment_gets_no_pod() -> None:
    world = World().put_live().put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")

    async def cordoned() -> None:
        world.node["spec"]["taints"] = [DISRUPTED]

    assert (await bind(world.kube, WANTED, cordoned)).bound == 0
    assert world.kube.calls == []


async def test_pods_on_their_node_are_seen_in_one_list() -> None:
    """A request for each of 10,000 pods would hold up every other node."""
    names = [f"p{number}" for number in range(7)]
    world = World().put_live().put_pods(*(pod(name) for name in names))
    planned(world, *(f"default/{name}=uid-{name}" for name in names))
    assert (await bind(world.kube, WANTED, at_once)).bound == 7
    assert not [name for kind, name in world.kube.gets if kind == "pods"]


async def test_a_conflict_leaves_the_pod_to_the_scheduler() -> None:
    world = World().put_live().put_pods(pod("a", on=""), pod("b", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b", "default/new=old-uid", "default/gone=x")
    world.put_pods(pod("new", on=""))
    world.kube.unbindable = {"a"}
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.planned, result.for_scheduler) == (1, 4, 1)
    assert ("bind", "new", "node-1") not in world.kube.calls, "a pod recreated under the name was not planned"


async def test_pods_that_came_meanwhile_take_their_room() -> None:
    """The fit is judged on a fresh list: 4 cores less 8 pods of 500m leave nothing."""
    world = World().put_live().put_pods(pod("a", on=""), *(pod(f"other-{n}") for n in range(8)))
    planned(world, "default/a=uid-a")
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.for_scheduler) == (0, 1)


async def test_nothing_is_bound_before_initialized_or_while_leaving() -> None:
    world = World().put_live().put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    del world.node["metadata"]["labels"]["karpenter.sh/initialized"]
    assert (await bind(world.kube, WANTED, at_once)).bound == 0
    world.node["metadata"]["labels"]["karpenter.sh/initialized"] = "true"
    world.claim["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert (await bind(world.kube, WANTED, at_once)).bound == 0
    assert world.kube.calls == []
