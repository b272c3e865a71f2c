"""Finds what replaces a node that left first, on an API server in memory."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from temporalio.testing import ActivityEnvironment

from activities.disruption.awaited_replacements import AwaitedReplacementActivities
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from tenon.disruption.history.arrivals import workload_mark
from tenon.kube.pod_decode import decode_pod
from tenon.messages.awaited_replacements import FindReplacementsInput, FoundReplacements, SettleReplacementsInput
from tenon.messages.disruption import DisruptionCandidate, DisruptionCommand
from tenon.messages.terminate_first import IntendedReplacement, TerminateFirstReason, TerminatesFirst
from tests.activities.node.fake_kube import START, stamp
from tests.activities.node.world import REF, World, condition, pod

POOL = {"kind": "NodePool", "metadata": {"name": "web", "uid": "uid-pool"}, "spec": {}}


def of_workload(name: str, *, on: str = "", owner: str = "ReplicaSet") -> dict[str, Any]:
    body = pod(name, on=on, owner=owner)
    body["metadata"]["ownerReferences"][0]["controller"] = True
    return body


def mark() -> str:
    return workload_mark(decode_pod(json.dumps(of_workload("web-1")).encode()).pod)


def command(ident: str = "drifted-1", *, reservation: str = "cr-1", count: int = 1) -> DisruptionCommand:
    intended = IntendedReplacement(pool="web", reservation=reservation, workloads={mark(): 2} if reservation else {})
    return DisruptionCommand(
        id=ident,
        reason="Drifted",
        candidates=[DisruptionCandidate(claim=REF.name, uid=REF.uid, pool="web", since=START)],
        moves_pods=True,
        graceful=False,
        terminate_first=TerminatesFirst(reason=TerminateFirstReason.NO_RESERVED_CAPACITY, intended=[intended] * count),
    )


def add_claim(world: World, name: str, *, reservation: str = "cr-1", since: int = 60, initialized: bool = True) -> None:
    conditions = [condition(kind) for kind in ("Launched", "Registered", *(["Initialized"] if initialized else []))]
    world.kube.add(
        NODECLAIMS,
        {
            "metadata": {
                "name": name,
                "uid": f"uid-{name}",
                "labels": {
                    "karpenter.sh/nodepool": "web",
                    **({"karpenter.k8s.aws/capacity-reservation-id": reservation} if reservation else {}),
                },
                "annotations": {},
                "creationTimestamp": stamp(START + timedelta(seconds=since)),
            },
            "spec": {"nodeClassRef": {"name": "default"}},
            "status": {"conditions": conditions},
        },
    )


async def find(world: World, of_command: DisruptionCommand) -> FoundReplacements:
    steps = AwaitedReplacementActivities(world.kube, world.recorder)
    step_input = FindReplacementsInput(
        cluster=REF.cluster, command=of_command, since=START + timedelta(seconds=30, microseconds=9)
    )
    return await ActivityEnvironment().run(steps.find, step_input)


def marks(world: World) -> dict[str, str]:
    return {
        name: body["metadata"]["annotations"].get("tenon.sh/replacement-for", "")
        for (plural, _, name), body in world.kube.objects.items()
        if plural == "nodeclaims"
    }


def gone() -> World:
    world = World()
    world.kube.add(NODEPOOLS, POOL)
    return world


async def test_n15_191_a_node_that_is_still_there_is_leaving() -> None:
    world = World().put_live()
    assert (await find(world, command())).leaving == [REF.name]


async def test_n15_191_only_a_newer_nodeclaim_of_the_reservation_is_the_replacement() -> None:
    world = gone()
    add_claim(world, "older", since=29)
    add_claim(world, "bought", reservation="")
    add_claim(world, "elsewhere", reservation="cr-2")
    assert (await find(world, command())).running == []
    add_claim(world, "new")
    replacements = await find(world, command())
    assert (replacements.running, replacements.starting) == (["new"], {})
    assert marks(world) == {"older": "", "bought": "", "elsewhere": "", "new": "drifted-1"}


async def test_n15_191_a_static_node_is_replaced_by_a_nodeclaim_of_its_nodepool() -> None:
    world = gone()
    add_claim(world, "new", reservation="", initialized=False)
    replacements = await find(world, command(reservation=""))
    assert (replacements.running, list(replacements.starting)) == ([], ["new"])


async def test_n15_198_two_commands_never_count_the_same_replacement() -> None:
    world = gone()
    add_claim(world, "b")
    add_claim(world, "c")
    assert (await find(world, command("drifted-1"))).running == ["b"]
    assert (await find(world, command("drifted-2"))).running == ["c"]
    assert (await find(world, command("drifted-1"))).running == ["b"], "a repeated look finds the same"
    assert (await find(world, command("drifted-3"))).running == []


async def test_n15_191_a_replacement_that_leaves_again_is_none() -> None:
    world = gone()
    add_claim(world, "new")
    await find(world, command())
    world.kube.objects[("nodeclaims", "", "new")]["metadata"]["deletionTimestamp"] = stamp(START)
    add_claim(world, "next")
    assert (await find(world, command())).running == ["next"]


async def test_n15_191_pods_of_the_workload_without_a_node_wait() -> None:
    """The event on the NodePool says how many."""
    world = gone()
    world.put_pods(
        of_workload("web-1"),
        of_workload("web-2"),
        of_workload("web-3", on="node-9"),
        of_workload("job-1", owner="StatefulSet"),
    )
    assert (await find(world, command())).waiting_pods == 2
    ((kind, name, reason, text),) = world.recorder.events
    assert (kind, name, reason) == ("NodePool", "web", "AwaitingReplacement")
    assert text == f"NodeClaim {REF.name} left before its replacement, which does not run yet: 2 pods without a node"


@pytest.mark.parametrize(
    ("outcome", "reason"), [("replaced", "ReplacementRunning"), ("given_up", "ReplacementMissing")]
)
async def test_n15_191_the_end_of_the_wait_frees_the_replacement_and_is_told_and_measured(
    outcome: str, reason: str
) -> None:
    world = gone()
    add_claim(world, "new")
    await find(world, command())
    world.recorder.events.clear()
    series = {"nodepool": "web", "reason": "drifted", "result": outcome}
    before = REGISTRY.get_sample_value("tenon_terminate_first_wait_seconds_count", series) or 0.0
    step_input = SettleReplacementsInput(
        cluster=REF.cluster, command=command(), outcome=outcome, text="so it was", claims=["new", "lost"], seconds=94
    )
    steps = AwaitedReplacementActivities(world.kube, world.recorder)
    await ActivityEnvironment().run(steps.settle, step_input)
    assert marks(world) == {"new": ""}
    assert [event[2:] for event in world.recorder.events] == [
        (reason, f"NodeClaim {REF.name} left before its replacement: so it was")
    ]
    assert REGISTRY.get_sample_value("tenon_terminate_first_wait_seconds_count", series) == before + 1


async def test_n15_198_the_mark_of_another_command_stays() -> None:
    world = gone()
    add_claim(world, "new")
    await find(world, command("drifted-2"))
    step_input = SettleReplacementsInput(
        cluster=REF.cluster, command=command("drifted-1"), outcome="replaced", text="", claims=["new"], seconds=0
    )
    await ActivityEnvironment().run(AwaitedReplacementActivities(world.kube, world.recorder).settle, step_input)
    assert marks(world) == {"new": "drifted-2"}
