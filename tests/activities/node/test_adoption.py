"""The first step of a workflow for a NodeClaim that Karpenter launched (AAN-01, AAN-02; docs/migrate.md)."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.cordon import cordon
from activities.node.launch_preparation import RESUMED_AFTER
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.messages.launch import PrepareLaunchInput, PrepareLaunchResult
from tenon.messages.node_steps import CordonInput
from tenon.node import machine
from tenon.node.state import NodeState, expiry
from tests.activities.node.fake_kube import START, stamp
from tests.activities.node.seller import Seller
from tests.activities.node.world import DISRUPTED, REF, Ec2, World, claim, live, node

TAGGED = ("karpenter.k8s.aws/tagged", "compatibility.karpenter.k8s.aws/cluster-name-tagged")


async def taken_over(world: World, ec2: Ec2 | None = None) -> tuple[PrepareLaunchResult, NodeState]:
    """What the workflow learns first, and what it becomes by it."""
    launching = Launching(world.kube, world.recorder, cast("Any", ec2 or Ec2()), world.clock)
    result = await launching.prepare(PrepareLaunchInput(claim=REF, attempt=1))
    return result, machine.apply(NodeState(claim=REF), result, world.clock())


async def test_a_node_that_runs_is_at_rest_at_once_and_its_tags_are_mended() -> None:
    world, ec2 = World().put_live(), Ec2()
    result, state = await taken_over(world, ec2)
    assert (result.request, state.stage, state.node_name) == (None, "live", "node-1")
    assert ec2.names_given == [("i-1", REF.name, "node-1")]
    assert all(world.claim["metadata"]["annotations"][key] == "true" for key in TAGGED)


async def test_a_node_whose_instance_cannot_be_tagged_is_taken_over_all_the_same(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Garbage collection tags it later; until then the claim does not say that it is tagged."""
    caplog.set_level(logging.INFO, logger="controller.nodeclaim.lifecycle")
    world, ec2 = World().put_live(), Ec2()
    ec2.refuses = True
    _, state = await taken_over(world, ec2)
    assert state.stage == "live"
    assert not set(TAGGED) & set(world.claim["metadata"]["annotations"])
    assert "The worker failed to tag an instance; the next sweep tags it" in caplog.messages


async def test_a_node_whose_instance_ec2_does_not_show_yet_is_not_called_tagged() -> None:
    """Garbage collection tags it later, and says so on the claim."""
    world, ec2 = World().put_live(), Ec2()
    ec2.shows = False
    _, state = await taken_over(world, ec2)
    assert state.stage == "live"
    assert not set(TAGGED) & set(world.claim["metadata"]["annotations"])


async def test_dis80_its_expiry_counts_from_the_creation_of_the_claim() -> None:
    world = World().put_live()
    world.claim["metadata"]["creationTimestamp"] = stamp(START - timedelta(days=29))
    _, state = await taken_over(world)
    assert expiry(state) == START + timedelta(days=1)


@pytest.mark.parametrize(
    "taint", [DISRUPTED, {"key": "karpenter.sh/disruption", "value": "disrupting", "effect": "NoSchedule"}]
)
async def test_tnt01_v1b11_a_disruption_that_only_began_is_undone(taint: dict[str, str]) -> None:
    """By a Karpenter of today, or of before v1."""
    world = World()
    world.kube.add(NODECLAIMS, live(claim()))
    world.kube.add(NODES, live(node(taint, {"key": "team", "effect": "NoSchedule"})))
    _, state = await taken_over(world)
    assert state.stage == "live"
    assert world.node["spec"]["taints"] == [{"key": "team", "effect": "NoSchedule"}]


@pytest.mark.parametrize(
    ("conditions", "stage"), [(("Launched",), "registering"), (("Launched", "Registered"), "initializing")]
)
async def test_lif03_a_claim_in_the_middle_of_its_start_goes_on_from_there(
    conditions: tuple[str, ...], stage: str
) -> None:
    """With time of its own to register: what passed under the other controller is not held against it."""
    world = World().put_live()
    survivors = [condition for condition in world.claim["status"]["conditions"] if condition["type"] in conditions]
    world.claim["status"]["conditions"] = survivors
    world.clock.instant += timedelta(hours=2)
    _, state = await taken_over(world)
    assert state.stage == stage
    assert machine.next_step(state, world.clock()).activity.value != "launch instance"  # type: ignore[union-attr]


@pytest.mark.parametrize("initialized", [True, False])
async def test_a_startup_cordon_goes_only_from_a_node_that_was_ready_before(*, initialized: bool) -> None:
    """An earlier workflow ended before it bound the pods. This one binds them only if the node was not ready."""
    world = World().put_live()
    if not initialized:
        conditions = [
            condition
            for condition in world.claim["status"]["conditions"]
            if condition["type"] in ("Launched", "Registered")
        ]
        world.claim["status"]["conditions"] = conditions
    world.node["spec"]["unschedulable"] = True
    world.node["metadata"]["annotations"] = {labels.STARTUP_CORDON: "true"}
    await taken_over(world)
    assert bool(world.node["spec"].get("unschedulable")) is not initialized


async def test_a_deleted_claim_ends_what_it_bought_although_its_class_is_gone() -> None:
    """A launch is recorded with the class. On a claim that leaves, nothing is recorded, so the class is not needed."""
    world = World()
    deleted = claim()
    deleted["status"] = {}
    deleted["metadata"] |= {"creationTimestamp": stamp(START), "deletionTimestamp": stamp(START)}
    world.kube.add(NODECLAIMS, deleted)
    world.clock.instant += 2 * RESUMED_AFTER
    result, state = await taken_over(world, Seller())
    assert result.view.instance is not None
    assert result.view.instance.id == "i-1"
    assert (state.stage.leaving, state.leave and state.leave.reason) == (True, "deleted")
    assert "providerID" not in world.claim["status"]


async def test_lif05_a_claim_that_bought_an_instance_and_has_no_class_says_so_and_is_given_up() -> None:
    """An earlier workflow ended between the purchase and its record, which needs the class."""
    world = World()
    bought = claim()
    bought["status"] = {}
    bought["metadata"] |= {"creationTimestamp": stamp(START)}
    world.kube.add(NODECLAIMS, bought)
    world.clock.instant += RESUMED_AFTER + timedelta(seconds=1)
    result, state = await taken_over(world, Seller())
    assert result.message.endswith("does not exist, so the launch of its instance cannot be recorded")
    assert state.stage == "preparing"
    assert [event[2] for event in world.recorder.events] == ["LaunchFailed"]
    world.clock.instant += timedelta(minutes=5)
    result, state = await taken_over(world, Seller())
    assert (state.stage.leaving, state.leave and state.leave.reason) == (True, "launch_timeout")
    assert world.claim["metadata"].get("deletionTimestamp")


async def test_ann04_a_deletion_goes_on_to_the_instant_that_karpenter_wrote() -> None:
    """TRM-06: the grace period is not counted again."""
    world = World().put_live(terminationGracePeriod="1h")
    metadata = world.claim["metadata"]
    metadata["deletionTimestamp"] = stamp(START)
    metadata["annotations"]["karpenter.sh/nodeclaim-termination-timestamp"] = stamp(START + timedelta(minutes=5))
    _, state = await taken_over(world)
    assert (state.stage, state.leave and state.leave.reason) == ("cordoning", "deleted")
    done = await cordon(world.kube, world.recorder, CordonInput(claim=REF, node_name="node-1"), world.clock)
    assert done.force_at == START + timedelta(minutes=5)
