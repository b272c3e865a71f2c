"""The turn of a launch at its NodePool's breaker: how long it is held, and which claims need none."""

from __future__ import annotations

from typing import Any, cast

from activities.ec2.errors import NodeClassReadinessUnknownError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launch_breakers import LaunchBreakers
from activities.node.launch_preparation import RESUMED_AFTER
from activities.node.launching import Launching
from tenon.messages.launch import (
    Instance,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
    LaunchWait,
    PrepareLaunchInput,
)
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim

UNDECIDED = LaunchResult(waits=LaunchWait(reason="X", message="EC2 wants another token", new_token=True))
"""An answer after which EC2 has neither accepted nor refused the launch."""


class Undecided(Seller):
    """Answers launches with `UNDECIDED`.

    ``class_unknown``: nothing can be prepared. ``bought``: an earlier request has bought an instance.
    """

    def __init__(self, *, class_unknown: bool = False, bought: bool = False) -> None:
        super().__init__()
        self.class_unknown = class_unknown
        self.bought = bought

    def prepare_launch(self, *value: Any) -> LaunchRequest:
        if self.class_unknown:
            raise NodeClassReadinessUnknownError("EC2NodeClass default has not been resolved yet")
        return super().prepare_launch(*value)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        return UNDECIDED

    def find_instance(self, claim_name: str) -> Instance | None:
        return super().find_instance(claim_name) if self.bought else None


def unlaunched(ec2: Undecided) -> tuple[World, Launching, LaunchBreakers]:
    """A claim that is just made, of a NodePool of which nothing is known."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    world, raw = World(), claim(nodeClassRef=reference)
    raw["status"] = {}
    raw["metadata"] |= {"creationTimestamp": stamp(world.clock())}
    world.kube.add(NODECLAIMS, raw)
    world.kube.add(EC2NODECLASSES, node_class())
    return world, *parts(world, ec2)


def parts(world: World, ec2: Seller) -> tuple[Launching, LaunchBreakers]:
    breakers = LaunchBreakers(world.clock, wait_seconds=0.0)
    return Launching(world.kube, world.recorder, cast("Any", ec2), world.clock, breakers=breakers), breakers


def refuse(world: World, breakers: LaunchBreakers, *, probes: bool) -> None:
    """Open the breaker of the claim's NodePool. If it ``probes``, the next launch may try."""
    breakers.refused("web", "Unauthorized", "you may not")
    (breaker,) = breakers.report().breakers
    if probes:
        world.clock.instant = breaker.next_probe_at


async def test_a_probe_that_cannot_be_prepared_leaves_its_turn_to_another_claim() -> None:
    """Otherwise the NodePool launches nothing for a minute, although EC2 might accept it by now."""
    world, launching, breakers = unlaunched(Undecided(class_unknown=True))
    refuse(world, breakers, probes=True)
    assert (await launching.prepare(PrepareLaunchInput(claim=REF))).request is None
    assert await breakers.admit("web", "another") is None


async def test_a_probe_holds_its_turn_from_its_preparation_to_its_answer() -> None:
    """One launch probes, and not one for each that was prepared meanwhile."""
    world, launching, breakers = unlaunched(Undecided())
    refuse(world, breakers, probes=True)
    prepared = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert prepared.request is not None
    assert await breakers.admit("web", "another") is not None
    await launching.launch(LaunchInput(claim=REF, request=prepared.request))
    assert await breakers.admit("web", "another") is None


async def test_a_claim_that_has_its_instance_needs_no_turn() -> None:
    """Nothing is launched for it, so refused launches of its NodePool do not delay it."""
    world = World().put_live()
    launching, breakers = parts(world, Seller())
    refuse(world, breakers, probes=False)
    result = await launching.prepare(PrepareLaunchInput(claim=REF))
    assert result.view.instance is not None
    assert (result.waits, world.status_of("Launched")[0]) == (None, "True")


async def test_a_deleted_claim_ends_what_it_bought_although_launches_are_refused() -> None:
    """Its instance is not on the claim yet. If the claim waited for its turn, it would leave without the instance."""
    world, launching, breakers = unlaunched(Undecided(bought=True))
    world.claim["metadata"]["deletionTimestamp"] = stamp(world.clock())
    world.clock.instant += 2 * RESUMED_AFTER
    refuse(world, breakers, probes=False)
    result = await launching.prepare(PrepareLaunchInput(claim=REF, began_at=world.clock()))
    assert result.view.instance is not None
    assert result.view.instance.id == "i-1"
    assert world.recorder.events == [], "it is not launched, so nothing is held back"
