"""From a Node that joined to one that carries its pods: register, initialize, bind."""

from __future__ import annotations

import sys
from typing import Any, cast

import pytest

from activities.kubernetes.binding import bind
from activities.kubernetes.initialization import initialize
from activities.kubernetes.registration import register
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.kubernetes.startup_cordon import remove_startup_cordon_by_name
from activities.nodeclaim_lifecycle import NodeActivities
from tenon.lifecycle.messages.launch import Instance
from tenon.lifecycle.messages.node import NodeInput
from tests.lifecycle_k8s.world import DISRUPTED, PROVIDER_ID, REF, UNREGISTERED, Ec2, World, claim, node, pod

WANTED = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
STARTUP = {"key": "cni", "effect": "NoSchedule"}


def joined(*taints: dict[str, str], **spec: object) -> World:
    world = World()
    world.kube.add(NODECLAIMS, claim(**spec))
    world.kube.add(NODES, node(*taints))
    return world


async def test_registration_hands_the_claim_over_to_the_node() -> None:
    """LIF-03, FIN-01, TNT-02: labels, annotations, taints, owner, finalizer in one write; the claim learns the name."""
    own = {"key": "team", "value": "a", "effect": "NoSchedule"}
    world = joined(UNREGISTERED, {"key": "x", "effect": "NoExecute", "timeAdded": "t"}, taints=[own])
    answer = await register(world.kube, world.recorder, WANTED, world.clock)
    assert answer.node_name == "node-1"
    metadata = world.node["metadata"]
    assert metadata["labels"]["karpenter.sh/registered"] == "true"
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"] == {"karpenter.sh/nodepool-hash": "7"}, "the plan is the claim's own affair"
    assert metadata["ownerReferences"][0]["uid"] == REF.uid
    assert metadata["finalizers"] == ["karpenter.sh/termination"]
    assert world.node["spec"]["taints"] == [{"key": "x", "effect": "NoExecute", "timeAdded": "t"}, own]
    assert world.claim["status"]["nodeName"] == "node-1"
    assert world.status_of("Registered")[0] == "True"
    assert world.recorder.events == []


async def test_registration_twice_writes_once_and_brings_no_startup_taint_back() -> None:
    world = joined(UNREGISTERED, startupTaints=[STARTUP])
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert world.node["spec"]["taints"] == [STARTUP]
    world.node["spec"]["taints"] = []  # its agent has removed it
    writes = len(world.kube.calls)
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).node_name == "node-1"
    assert world.node["spec"]["taints"] == []
    assert len(world.kube.calls) == writes


async def test_a_node_without_the_unregistered_taint_is_registered_and_reported() -> None:
    """TNT-02, EVT-05."""
    world = joined()
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).node_name == "node-1"
    assert world.recorder.reasons() == ["UnregisteredTaintMissing"]


async def test_aws112_a_partition_that_was_not_known_at_the_launch_is_read_back() -> None:
    """EC2 chose it, and showed the instance too late. Without a placement group EC2 is not asked."""

    class Ec2InPartition(Ec2):
        def describe_instance(self, instance_id: str) -> Instance:
            return super().describe_instance(instance_id).model_copy(update={"partition": 3})

    label = "karpenter.k8s.aws/placement-group-partition"
    for group, expected in (({"karpenter.k8s.aws/placement-group-id": "pg-1"}, "3"), ({}, None)):
        world = joined(UNREGISTERED)
        world.claim["metadata"]["labels"] |= group
        activities = NodeActivities(world.kube, world.recorder, cast("Any", Ec2InPartition()))
        assert (await activities.register(WANTED)).node_name == "node-1"
        assert world.node["metadata"]["labels"].get(label) == expected
        assert world.claim["metadata"]["labels"].get(label) == expected


async def test_the_provider_id_decides_not_the_name() -> None:
    world = joined(UNREGISTERED)
    world.node["spec"]["providerID"] = "aws:///us-west-2a/i-other"
    real = node(UNREGISTERED)
    real["metadata"]["name"] = "node-2"
    world.kube.add(NODES, real)
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).node_name == "node-2"
    assert "karpenter.sh/registered" not in world.node["metadata"]["labels"]


@pytest.mark.parametrize(("nodes", "reason"), [(0, "NodeNotFound"), (2, "MultipleNodesFound")])
async def test_registration_waits_with_a_reason(nodes: int, reason: str) -> None:
    """LIF-03."""
    world = World()
    world.kube.add(NODECLAIMS, claim())
    for number in range(nodes):
        body = node(UNREGISTERED)
        body["metadata"]["name"] = f"twin-{number}"
        world.kube.add(NODES, body)
    answer = await register(world.kube, world.recorder, WANTED, world.clock)
    assert (answer.node_name, answer.reason) == ("", reason)
    assert world.status_of("Registered") == ("Unknown", reason)


async def test_registration_of_a_vanished_claim_touches_no_node() -> None:
    world = World()
    world.kube.add(NODES, node(UNREGISTERED))
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).reason == "NodeClaimGone"
    assert world.kube.calls == []


async def test_initialization_waits_and_then_labels() -> None:
    """LIF-04, LBL-04."""
    world = joined(STARTUP, startupTaints=[STARTUP])
    answer = await initialize(world.kube, WANTED, world.clock)
    assert (answer.initialized, answer.reason) == (False, "StartupTaintsExist")
    assert world.status_of("Initialized") == ("Unknown", "StartupTaintsExist")
    assert "cni:NoSchedule" in answer.message
    world.node["spec"]["taints"] = []
    assert (await initialize(world.kube, WANTED, world.clock)).initialized
    assert world.node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"
    assert world.status_of("Initialized")[0] == "True"


async def test_a_taint_that_comes_back_before_the_label_is_written_delays_initialization() -> None:
    """kube-controller-manager may take off the taint not-ready and set it once more, because it sees an older Node."""
    world = joined()
    back = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    world.kube.before_patch.append(lambda: world.kube.add(NODES, node(back)) and None)
    answer = await initialize(world.kube, WANTED, world.clock)
    assert (answer.initialized, answer.reason) == (False, "KnownEphemeralTaintsExist")
    assert "karpenter.sh/initialized" not in world.node["metadata"]["labels"]
    assert world.status_of("Initialized") == ("Unknown", "KnownEphemeralTaintsExist")


@pytest.mark.parametrize(("memory", "status"), [("8Gi", "True"), ("7Gi", "False")])
async def test_lif07_initialization_compares_the_node_with_its_claim(memory: str, status: str) -> None:
    """In the same write; a node with less is initialized all the same."""
    world = joined(resources={"requests": {"memory": "1Gi"}})
    world.claim["status"]["capacity"] = {"memory": "8Gi", "vpc.amazonaws.com/pod-eni": "9"}
    world.node["status"]["capacity"] = {"memory": memory}
    writes = len(world.kube.calls)
    assert (await initialize(world.kube, WANTED, world.clock)).initialized
    assert [call[:2] for call in world.kube.calls[writes:]] == [("patch", "nodes"), ("patch", "nodeclaims")]
    assert world.status_of("ConsistentStateFound")[0] == status
    assert world.status_of("Initialized")[0] == "True"


async def test_initialization_without_a_node_says_so() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    assert (await initialize(world.kube, WANTED, world.clock)).reason == "NodeNotFound"


async def at_once() -> None:
    """kube-scheduler does nothing in its moment."""


def planned(world: World, *entries: str) -> World:
    world.claim["metadata"]["annotations"]["tenon.sh/planned-pods"] = ",".join(entries)
    return world


async def test_planned_pods_are_bound_once() -> None:
    """Rule: only pods planned for this claim; a repetition answers the same and binds nothing again."""
    world = World().put_live().put_pods(pod("a", on=""), pod("b", on=""), pod("stranger", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    for _ in range(2):
        result = await bind(world.kube, WANTED, at_once)
        assert (result.bound, result.planned, result.left) == (2, 2, 0)
    assert [call for call in world.kube.calls if call[0] == "bind"] == [
        ("bind", "a", "node-1"),
        ("bind", "b", "node-1"),
    ]
    stranger = world.kube.objects[("pods", "default", "stranger")]
    assert "nodeName" not in stranger["spec"]


async def test_no_pod_is_bound_before_watches_have_told_of_the_node() -> None:
    """Controllers that still see karpenter.sh/unregistered:NoExecute would evict the pod, and a kubelet refuse it."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.kube.watched = int(world.node["metadata"]["resourceVersion"])
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.planned, result.left) == (0, 1, 1), "kube-scheduler binds by what it has been told"
    assert not [call for call in world.kube.calls if call[0] == "bind"]
    assert not world.node["spec"].get("unschedulable")
    world.kube.watched = int(world.node["metadata"]["resourceVersion"])
    assert (await bind(world.kube, WANTED, at_once)).bound == 1


async def test_binding_waits_a_while_until_watches_have_told_of_the_node() -> None:
    """In a burst they are some seconds behind. If kube-scheduler spread the pods, other pods would lose their room."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.kube.watched = int(world.node["metadata"]["resourceVersion"])
    world.kube.watched_next = [world.kube.watched, sys.maxsize]
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    assert (await bind(world.kube, WANTED, at_once)).bound == 1
    assert not world.node["spec"].get("unschedulable")


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
    assert (result.bound, result.planned, result.left, result.running) == (0, 2, 0, 2)


async def test_pods_beside_the_planned_ones_are_counted_too() -> None:
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
    assert (result.bound, result.planned, result.left) == (2, 3, 0)
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
    assert (result.bound, result.planned, result.left) == (1, 5, 0)
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


WEB = {"kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": True}


def waiting(name: str, *, owner: dict[str, Any] = WEB, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A pod that waits for a node."""
    body = pod(name, on="", **spec)
    body["metadata"] |= {"ownerReferences": [owner], "namespace": namespace}
    return body


def grouped(world: World, groups: str, *pods: dict[str, Any]) -> World:
    """Planned pods of these groups."""
    world.put_pods(*pods)
    names = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in pods]
    planned(world, *(f"{namespace}/{name}=uid-{name}" for namespace, name in names))
    world.claim["metadata"]["annotations"]["tenon.sh/planned-pod-groups"] = groups
    return world


def alike(world: World, groups: str, names: str) -> World:
    """Pods of one ReplicaSet, of these groups."""
    return grouped(world, groups, *(waiting(f"web-1-{name}") for name in names))


def read(world: World) -> list[str]:
    return [name for kind, name in world.kube.gets if kind == "pods"]


async def test_pods_that_are_alike_are_bound_after_one_of_them_was_read() -> None:
    world = alike(World().put_live(), "0,0,1,1,0", "abcde")
    assert (await bind(world.kube, WANTED, at_once)).bound == 5
    assert set(read(world)) == {"web-1-a", "web-1-c"}
    bound = [world.kube.objects[("pods", "default", f"web-1-{name}")]["spec"]["nodeName"] for name in "abcde"]
    assert bound == ["node-1"] * 5


async def test_pods_of_an_indexed_job_with_a_long_name_are_alike() -> None:
    """A pod's name ends with its index. A long name of the Job is cut to make room for it."""
    job = {"kind": "Job", "name": "j" * 63, "uid": "j", "controller": True}
    names = [f"{'j' * (57 - len(str(number)))}-{number}-abcde" for number in (9, 10, 100_000)]
    world = grouped(World().put_live(), "0,0,0", *(waiting(name, owner=job) for name in names))
    assert (await bind(world.kube, WANTED, at_once)).bound == 3
    assert set(read(world)) == {names[0]}


@pytest.mark.parametrize(
    "forged",
    [
        waiting("other-1-b", schedulerName="mine"),
        waiting("web-2-b", nodeSelector={"team": "red"}),
        waiting("web-1-b", namespace="kube-system", nodeSelector={"team": "red"}),
    ],
    ids=lambda forged: str(forged["metadata"]["name"]) + " in " + str(forged["metadata"]["namespace"]),
)
async def test_who_edits_a_claim_cannot_have_a_pod_bound_by_the_rules_of_another(forged: dict[str, Any]) -> None:
    world = grouped(World().put_live(), "0,0", waiting("web-1-a"), forged)
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.left) == (1, 1)
    metadata = forged["metadata"]
    assert not world.kube.objects["pods", metadata["namespace"], metadata["name"]]["spec"].get("nodeName")


@pytest.mark.parametrize(
    "owner",
    [{**WEB, "controller": False}, {**WEB, "kind": "Workflow"}],
    ids=["owned but not controlled", "of several templates"],
)
async def test_pods_that_no_template_explains_are_all_read(owner: dict[str, Any]) -> None:
    pods = waiting("web-1-a", owner=owner), waiting("web-1-b", owner=owner, schedulerName="mine")
    world = grouped(World().put_live(), "0,0", *pods)
    assert (await bind(world.kube, WANTED, at_once)).bound == 1
    assert set(read(world)) == {"web-1-a", "web-1-b"}


async def test_pods_that_are_alike_are_bound_only_as_far_as_there_is_room() -> None:
    world = World().put_live()
    world.node["status"]["allocatable"] |= {"cpu": "1200m"}
    alike(world, "0,0,0", "abc")
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.left) == (2, 1)


@pytest.mark.parametrize("groups", ["0,0", "0,0,0,0", ",,", ""])
async def test_groups_that_do_not_match_the_planned_pods_are_ignored(groups: str) -> None:
    """Users can edit annotations."""
    world = alike(World().put_live(), groups, "abc")
    assert (await bind(world.kube, WANTED, at_once)).bound == 3
    assert {"web-1-a", "web-1-b", "web-1-c"} <= set(read(world))


async def test_when_the_first_of_pods_that_are_alike_has_a_node_the_others_are_read() -> None:
    """It says nothing about the others. None of those that left is bound."""
    world = alike(World().put_live(), "0,0,0,0", "abcd")
    world.kube.objects[("pods", "default", "web-1-a")]["spec"]["nodeName"] = "node-2"
    world.kube.objects[("pods", "default", "web-1-c")]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.left) == (2, 0)
    assert [call for call in world.kube.calls if call[0] == "bind"] == [
        ("bind", "web-1-b", "node-1"),
        ("bind", "web-1-d", "node-1"),
    ]


async def test_a_pod_that_is_gone_is_not_bound_although_one_that_is_alike_waits() -> None:
    """The API server refuses it. Its replacement has another name, and belongs to kube-scheduler."""
    world = alike(World().put_live(), "0,0,0", "abc")
    del world.kube.objects[("pods", "default", "web-1-b")]
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.planned, result.left) == (2, 3, 1)


CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "t"}


async def test_a_node_bought_for_pods_has_a_startup_cordon_until_they_are_bound() -> None:
    """Nobody else's pod takes their room, not even before kube-scheduler has seen them, and no mark stays behind."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert world.node["spec"]["unschedulable"] is True
    world.node["spec"]["taints"].append(CORDON)  # as the node lifecycle controller does
    assert (await initialize(world.kube, WANTED, world.clock)).initialized
    seen: list[tuple[bool, str]] = []

    async def moment() -> None:
        placed = world.kube.objects[("pods", "default", "a")]["spec"].get("nodeName", "")
        seen.append((world.node["spec"]["unschedulable"], placed))

    assert (await bind(world.kube, WANTED, moment)).bound == 1
    assert seen == [(True, "node-1")], "closed until kube-scheduler has had its moment with what was bound"
    assert not world.node["spec"].get("unschedulable")
    assert world.node["spec"]["taints"] == []
    assert "tenon.sh/closed" not in world.node["metadata"]["annotations"]


async def test_a_node_bought_for_no_pod_is_open_from_the_start() -> None:
    world = joined(UNREGISTERED)
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert not world.node["spec"].get("unschedulable")


async def test_a_cordon_of_somebody_else_is_neither_used_nor_taken_off() -> None:
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.node["spec"]["unschedulable"] = True
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    assert (await bind(world.kube, WANTED, at_once)).bound == 0
    assert world.node["spec"]["unschedulable"] is True


async def test_a_startup_cordon_goes_if_the_node_does_not_get_ready() -> None:
    """What the node lacks may be a thing that only kube-scheduler's pods bring."""
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    world.node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    await initialize(world.kube, WANTED, world.clock)
    assert world.node["spec"]["unschedulable"] is True
    await world.clock.sleep(60)
    await initialize(world.kube, WANTED, world.clock)
    assert not world.node["spec"].get("unschedulable")


async def test_a_node_whose_workflow_ended_before_its_pods_were_bound_is_opened() -> None:
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert await remove_startup_cordon_by_name(world.kube, "node-1")
    assert not world.node["spec"].get("unschedulable")
    assert not await remove_startup_cordon_by_name(world.kube, "node-1")
    assert not await remove_startup_cordon_by_name(world.kube, "gone")


async def test_a_pod_that_a_webhook_keeps_from_binding_delays_neither_node_nor_pods() -> None:
    world = joined(UNREGISTERED).put_pods(pod("a", on=""), pod("b", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    world.kube.forbidden = {"a"}
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.left) == (1, 1)
    assert not world.node["spec"].get("unschedulable")


async def test_a_claim_whose_planned_pods_cannot_be_read_closes_no_node() -> None:
    world = joined(UNREGISTERED)
    planned(world, "none")
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert not world.node["spec"].get("unschedulable")


async def test_a_person_may_remove_a_startup_cordon_and_cordon_the_node_afterwards() -> None:
    """The cordon is no longer Tenon's then: only its mark goes."""
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    world.node["spec"]["unschedulable"] = False
    assert await remove_startup_cordon_by_name(world.kube, "node-1")
    assert "tenon.sh/closed" not in world.node["metadata"]["annotations"]
    world.node["spec"]["unschedulable"] = True
    assert not await remove_startup_cordon_by_name(world.kube, "node-1")
    assert world.node["spec"]["unschedulable"] is True


async def test_a_node_that_leaves_keeps_its_startup_cordon() -> None:
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    world.claim["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    await bind(world.kube, WANTED, at_once)
    assert world.node["spec"]["unschedulable"] is True


async def test_a_conflict_leaves_the_pod_to_the_scheduler() -> None:
    world = World().put_live().put_pods(pod("a", on=""), pod("b", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b", "default/new=old-uid", "default/gone=x")
    world.put_pods(pod("new", on=""))
    world.kube.unbindable = {"a"}
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.planned, result.left) == (1, 4, 1)
    assert ("bind", "new", "node-1") not in world.kube.calls, "a pod recreated under the name was not planned"


async def test_pods_that_came_meanwhile_take_their_room() -> None:
    """The fit is judged on a fresh list: 4 cores less 8 pods of 500m leave nothing."""
    world = World().put_live().put_pods(pod("a", on=""), *(pod(f"other-{n}") for n in range(8)))
    planned(world, "default/a=uid-a")
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.left) == (0, 1)


async def test_nothing_is_bound_before_initialized_or_while_leaving() -> None:
    world = World().put_live().put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    del world.node["metadata"]["labels"]["karpenter.sh/initialized"]
    assert (await bind(world.kube, WANTED, at_once)).bound == 0
    world.node["metadata"]["labels"]["karpenter.sh/initialized"] = "true"
    world.claim["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert (await bind(world.kube, WANTED, at_once)).bound == 0
    assert world.kube.calls == []
