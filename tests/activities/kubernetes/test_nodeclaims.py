"""Reading and writing NodeClaims."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from activities.kubernetes import nodeclaim_deletion, nodeclaims
from activities.kubernetes.errors import ConflictError
from activities.kubernetes.resources import NODECLAIMS
from tenon.messages.base import ClaimRef
from tenon.messages.launch import ClaimView, Instance
from tests.activities.node.world import PROVIDER_ID, REF, World, claim, live

INSTANCE = Instance(
    id="i-1",
    provider_id=PROVIDER_ID,
    instance_type="m5.large",
    zone="us-west-2a",
    capacity_type="spot",
    image_id="ami-1",
    price=0.1,
)


def unlaunched(**spec: object) -> dict[str, Any]:
    body = claim(**spec)
    body["status"] = {}
    return body


async def launch(world: World) -> bool:
    return await nodeclaims.mark_launched(
        world.kube,
        REF,
        INSTANCE,
        capacity={"cpu": 2000, "memory": 8 * 2**30},
        allocatable={"cpu": 1930, "memory": 7 * 2**30},
        labels_={"node.kubernetes.io/instance-type": "m5.large"},
        now=world.clock,
    )


async def observed(world: World, ref: ClaimRef) -> ClaimView:
    """What a workflow knows of the claim."""
    claim_record = await nodeclaims.read_claim(world.kube, ref)
    return ClaimView() if claim_record is None else nodeclaims.view_of(claim_record)


async def test_view_reads_durations_wishes_and_plan() -> None:
    world = World()
    body = live(claim(expireAfter="Never", terminationGracePeriod="1h30m"))
    body["metadata"]["annotations"] = {
        "tenon.sh/keep-until": "2026-04-01T00:00:00Z",
        "tenon.sh/planned-pods": "default/a=1,default/b=2",
    }
    world.kube.add(NODECLAIMS, body)
    view = await observed(world, REF)
    assert view.exists
    assert not view.deleting
    assert (view.pool, view.node_class, view.node_name) == ("web", "default", "node-1")
    assert (view.expire_after_seconds, view.termination_grace_seconds) == (None, 5400.0)
    assert view.keep_until == datetime(2026, 4, 1, tzinfo=UTC)
    assert view.planned_pods == 2
    assert view.registered
    assert view.initialized


async def test_view_of_another_claim_with_the_same_name_is_absent() -> None:
    world = World().put_live()
    other = ClaimRef(cluster="sandbox", name=REF.name, uid="older")
    assert not (await observed(world, other)).exists


async def test_launch_is_copied_once_and_ready_stays_open() -> None:
    """LIF-02, NC-03, NC-04: everything of the launch is on the claim, and Ready waits for the other two."""
    world = World()
    world.kube.add(NODECLAIMS, unlaunched())
    assert await launch(world)
    status = world.claim["status"]
    assert (status["providerID"], status["imageID"]) == (PROVIDER_ID, "ami-1")
    assert status["capacity"] == {"cpu": "2", "memory": "8Gi"}
    assert status["allocatable"] == {"cpu": "1930m", "memory": "7Gi"}
    assert world.claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "m5.large"
    assert world.status_of("Launched")[0] == "True"
    assert world.status_of("Ready")[0] == "Unknown"
    writes = len(world.kube.calls)
    assert await launch(world)
    assert len(world.kube.calls) == writes, "a repetition writes nothing"


async def test_ready_is_true_only_with_all_three() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    await nodeclaims.update_conditions(world.kube, REF, [nodeclaims.ConditionUpdate("Registered", "True")], world.clock)
    assert world.status_of("Ready")[0] == "Unknown"
    await nodeclaims.update_conditions(
        world.kube, REF, [nodeclaims.ConditionUpdate("Initialized", "True")], world.clock
    )
    assert world.status_of("Ready")[0] == "True"
    await nodeclaims.update_conditions(
        world.kube, REF, [nodeclaims.ConditionUpdate("Initialized", "False", "Lost")], world.clock
    )
    assert world.status_of("Ready")[0] == "False"


async def test_launch_failure_says_why_on_the_claim() -> None:
    """LIF-01: Launched is Unknown with the provider's reason, LaunchFailed without one."""
    world = World()
    world.kube.add(NODECLAIMS, unlaunched())
    await nodeclaims.mark_launch_failed(world.kube, REF, "", "no subnet", world.clock)
    assert world.status_of("Launched") == ("Unknown", "LaunchFailed")
    await nodeclaims.mark_launch_failed(world.kube, REF, "unauthorized_operation", "denied", world.clock)
    assert world.status_of("Launched") == ("Unknown", "UnauthorizedOperation")


async def test_writes_survive_a_concurrent_writer() -> None:
    """A condition that somebody else sets between our read and our write is not lost."""
    world = World().put_live()

    def interfere() -> None:
        world.claim["status"]["conditions"].append(
            {"type": "Drifted", "status": "True", "reason": "Drifted", "lastTransitionTime": "2026-03-01T12:00:00Z"}
        )
        world.claim["metadata"]["resourceVersion"] = "999"

    world.kube.before_patch = [interfere]
    await nodeclaims.mark_instance_terminating(world.kube, REF, world.clock)
    assert world.status_of("Drifted")[0] == "True"
    assert world.status_of("InstanceTerminating")[0] == "True"


async def test_endless_interference_is_an_error() -> None:
    world = World().put_live()

    def interfere() -> None:
        world.claim["metadata"]["resourceVersion"] += "0"

    world.kube.before_patch = [interfere] * 50
    with pytest.raises(ConflictError):
        await nodeclaims.mark_instance_terminating(world.kube, REF, world.clock)


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        ("insufficient_capacity", ["InsufficientCapacityError"]),
        ("InsufficientCapacity", ["InsufficientCapacityError"]),
        ("nodeclass_not_ready", ["NodeClassNotReady"]),
        ("launch_timeout", []),
    ],
)
async def test_giving_up_a_claim_deletes_it_with_an_event(reason: str, event: list[str]) -> None:
    """LIF-01, EVT-05."""
    world = World()
    world.kube.add(NODECLAIMS, unlaunched())
    assert await nodeclaim_deletion.delete_claim(world.kube, world.recorder, REF, reason, "no luck")
    assert world.claim["metadata"]["deletionTimestamp"], "the finalizer holds it"
    assert world.recorder.reasons() == event


async def test_everything_on_a_vanished_claim_is_quiet() -> None:
    world = World()
    assert not await launch(world)
    assert not await nodeclaims.ensure_claim_finalizer(world.kube, REF)
    assert not await nodeclaims.record_keep(world.kube, REF, world.clock())
    assert not await nodeclaim_deletion.delete_claim(world.kube, world.recorder, REF, "launch_timeout", "")
    assert world.kube.calls == []


async def test_finalizer_is_put_on_but_never_on_a_claim_that_is_leaving() -> None:
    """FIN-01: the API server refuses new finalizers on what is being deleted."""
    world = World()
    body = claim()
    body["metadata"]["finalizers"] = ["example.com/other"]
    world.kube.add(NODECLAIMS, body)
    await nodeclaims.ensure_claim_finalizer(world.kube, REF)
    assert world.claim["metadata"]["finalizers"] == ["example.com/other", "karpenter.sh/termination"]
    world.claim["metadata"] |= {"finalizers": ["example.com/other"], "deletionTimestamp": "2026-03-01T12:00:00Z"}
    assert await nodeclaims.ensure_claim_finalizer(world.kube, REF)
    assert world.claim["metadata"]["finalizers"] == ["example.com/other"]
