"""A launch for which EC2 refuses the cheap types of the request, and sells one that costs many times as much."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launching import Launching
from tenon.apis import labels
from tenon.evolve import evolve
from tenon.messages.launch import (
    FleetOverride,
    FleetTemplate,
    LaunchInput,
    LaunchRequest,
    LaunchResult,
)
from tenon.messages.offerings import OfferingRef
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim

DEAR = FleetOverride(instance_type="m5.16xlarge", zone="us-west-2a", subnet_id="subnet-1", price=3.072)
CHEAP = FleetOverride(instance_type="m5.large", zone="us-west-2a", subnet_id="subnet-1", price=0.096)


class ShortOfCheapTypes(Seller):
    """Sells the dear type of a request, because it lacks the cheap one."""

    def launch(self, request: LaunchRequest) -> LaunchResult:
        instance = super().launch(request).instance
        assert instance is not None
        instance = evolve(instance, instance_type=DEAR.instance_type, price=DEAR.price)
        lacking = OfferingRef(capacity_type="on-demand", instance_type=CHEAP.instance_type, zone=CHEAP.zone)
        return LaunchResult(instance=instance, unavailable=[lacking])


async def bought_in_a_shortage(**annotations: str) -> World:
    world, waiting = World(), claim()
    waiting["metadata"]["annotations"] |= annotations
    waiting["status"] = {}
    world.kube.add(NODECLAIMS, waiting)
    world.kube.add(EC2NODECLASSES, node_class())
    launching = Launching(world.kube, world.recorder, cast("Any", ShortOfCheapTypes()), world.clock)
    template = FleetTemplate(name="t", image_id="ami-1", overrides=[CHEAP, DEAR])
    request = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[template], tags={})
    await launching.launch(LaunchInput(claim=REF, request=request))
    return world


async def test_a_node_far_dearer_than_a_refused_type_of_its_request_is_marked() -> None:
    """One request names many types, so EC2 may sell a dear one although the plan was cheap."""
    world = await bought_in_a_shortage()
    assert world.claim["metadata"]["annotations"][labels.BOUGHT_IN_SHORTAGE] == "0.0960"
    (message,) = (message for _, _, why, message in world.recorder.events if why == "BoughtInShortage")
    assert "m5.large at $0.0960 an hour" in message
    assert "m5.16xlarge at $3.0720" in message


@pytest.mark.parametrize(
    ("annotations", "mark"),
    [({labels.SHORTAGE_PRICE_FACTOR: "100"}, None), ({labels.BOUGHT_IN_SHORTAGE: "0.0500"}, "0.0500")],
    ids=["the factor of its NodePool", "the price that its plan wrote"],
)
async def test_the_mark_of_a_dear_node_respects_what_its_claim_has(
    annotations: dict[str, str], mark: str | None
) -> None:
    world = await bought_in_a_shortage(**annotations)
    assert world.claim["metadata"]["annotations"].get(labels.BOUGHT_IN_SHORTAGE) == mark
    assert not [why for _, _, why, _ in world.recorder.events if why == "BoughtInShortage"]
