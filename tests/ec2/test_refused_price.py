"""What an instance would have cost if EC2 had not refused cheaper offerings of its request."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import pytest

from activities.ec2.provider import Ec2Provider
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.refusals.refused_price import cheapest_left_out, cheapest_refused
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.evolve import evolve
from tenon.kube.offerings import OfferingKey
from tenon.kube.requirements import Requirements
from tenon.messages.launch import FleetOverride, FleetTemplate, Instance, LaunchRequest
from tenon.messages.offerings import OfferingRef
from tenon.resources import parse_resources
from tests.ec2.samples import node_claim
from tests.tenon.scheduling.builders import AMD64, CATALOG, ZONES

PRICES = {"c5.large": 0.085, "m5.large": 0.096, "r5.large": 0.126, "m5.16xlarge": 3.072}


def request(capacity_type: str = labels.ON_DEMAND) -> LaunchRequest:
    rows = [
        FleetOverride(instance_type=name, zone=zone, subnet_id=f"subnet-{zone}", price=price)
        for name, price in PRICES.items()
        for zone in ("us-west-2a", "us-west-2b")
    ]
    template = FleetTemplate(name="t", image_id="ami-1", overrides=rows)
    return LaunchRequest(client_token="t", capacity_type=capacity_type, templates=[template], tags={})


def bought(name: str, capacity_type: str = labels.ON_DEMAND) -> Instance:
    return Instance(
        id="i-1",
        provider_id="aws:///us-west-2a/i-1",
        instance_type=name,
        zone="us-west-2a",
        capacity_type=capacity_type,
        image_id="ami-1",
        price=PRICES[name],
    )


def refused(*names: str, zone: str = "us-west-2a", capacity_type: str = labels.ON_DEMAND) -> list[OfferingRef]:
    return [OfferingRef(capacity_type=capacity_type, instance_type=name, zone=zone) for name in names]


def cheapest(name: str, *refusals: OfferingRef, capacity_type: str = labels.ON_DEMAND) -> str | None:
    fleet_override = cheapest_refused(request(capacity_type), refusals, bought(name, capacity_type))
    return None if fleet_override is None else fleet_override.instance_type


def test_the_cheapest_of_the_refused_offerings_counts() -> None:
    assert cheapest("m5.16xlarge", *refused("r5.large", "m5.large")) == "m5.large"


def test_an_offering_that_ec2_did_not_refuse_does_not_count() -> None:
    """For spot capacity, EC2 chooses by more than the price."""
    assert cheapest("m5.16xlarge") is None
    assert cheapest("m5.16xlarge", *refused("c5.large", capacity_type=labels.SPOT)) is None


def test_a_refused_offering_that_costs_more_does_not_count() -> None:
    assert cheapest("m5.large", *refused("r5.large")) is None


@pytest.mark.parametrize(
    "refusal",
    [
        OfferingRef(capacity_type=labels.ON_DEMAND, instance_type="c5.large", zone=""),
        OfferingRef.of(OfferingKey.of_quota(labels.ON_DEMAND, "Standard")),
    ],
    ids=["the type in every zone", "the quota of the type"],
)
def test_a_refusal_of_more_than_one_offering_counts(refusal: OfferingRef) -> None:
    assert cheapest("m5.16xlarge", refusal) == "c5.large"


def test_what_a_request_left_out_counts_if_it_is_cheaper() -> None:
    """EC2 refused it a moment ago, so the request of a static NodePool does not name it."""
    left_out = FleetOverride(instance_type="c5a.large", zone="us-west-2a", subnet_id="", price=0.077)
    shorter = evolve(request(), left_out=left_out)
    assert cheapest_refused(shorter, refused("c5.large"), bought("m5.16xlarge")) == left_out
    assert cheapest_refused(shorter, [], bought("m5.16xlarge")) == left_out
    dear = evolve(request(), left_out=replace(left_out, price=9.0))
    assert cheapest_refused(dear, [], bought("m5.16xlarge")) is None


@pytest.mark.parametrize(("overlaid", "cheaper"), [(0.05, None), (0.09, "c5.large")])
def test_prices_of_nodeoverlays_are_compared_with_each_other(overlaid: float, cheaper: str | None) -> None:
    """The instance has its list price, which says nothing about what the request preferred."""
    rows = [
        FleetOverride(instance_type=name, zone="us-west-2a", subnet_id="subnet-1", price=price, priority=price)
        for name, price in {"c5.large": 0.085, "m5.large": overlaid}.items()
    ]
    template = FleetTemplate(name="t", image_id="ami-1", overrides=rows)
    in_order = evolve(request(), templates=[template])
    refused_row = cheapest_refused(in_order, refused("c5.large"), bought("m5.large"))
    assert (None if refused_row is None else refused_row.instance_type) == cheaper


def test_the_cheapest_offering_that_a_request_leaves_out_would_hold_what_the_claim_asks_for() -> None:
    """Of the capacity type that it buys, in a zone with a subnet."""
    keys = {OfferingKey(kind, item.name, zone) for item in CATALOG for kind in ("spot", "on-demand") for zone in ZONES}

    def left_out(refused: Container[OfferingKey], cpu: str = "1", zones: Sequence[str] = ZONES) -> str | None:
        requests = parse_resources({"cpu": cpu})
        fleet_override = cheapest_left_out(Requirements.of(AMD64), requests, CATALOG, zones, refused, labels.ON_DEMAND)
        return (
            None
            if fleet_override is None
            else f"{fleet_override.instance_type} {fleet_override.zone} {fleet_override.price}"
        )

    assert left_out(keys) == "c5.large us-west-2a 0.085"
    assert left_out(keys, cpu="10") == "c5.4xlarge us-west-2a 0.68"
    assert left_out(keys, zones=["us-west-2c"]) == "c5.large us-west-2c 0.085"
    assert left_out({OfferingKey("spot", "c5.large", "us-west-2a")}) is None
    assert left_out(()) is None


@pytest.mark.parametrize("group", ["pg-1", ""])
def test_what_ec2_refuses_in_a_placement_group_counts_for_launches_into_it(group: str) -> None:
    """As does what it refuses everywhere, and nothing that it refuses in another group."""
    in_group = evolve(request(), placement_group="pg-1")
    key = OfferingKey.refusable(labels.ON_DEMAND, "c5.large", "us-west-2a", placement_group=group)
    cheaper = cheapest_refused(in_group, [OfferingRef.of(key)], bought("m5.16xlarge"))
    assert cheaper is not None
    assert cheaper.instance_type == "c5.large"

    def left_out(placement_group: str) -> FleetOverride | None:
        requirements, requests = Requirements.of(AMD64), parse_resources({"cpu": "1"})
        return cheapest_left_out(
            requirements, requests, CATALOG, ZONES, {key}, labels.ON_DEMAND, placement_group=placement_group
        )

    assert left_out("pg-1") is not None
    if group:
        elsewhere = evolve(request(), placement_group="pg-2")
        assert cheapest_refused(elsewhere, [OfferingRef.of(key)], bought("m5.16xlarge")) is None
        assert left_out("pg-2") is None


def test_a_place_in_a_reservation_is_paid_for_already() -> None:
    refusals = refused("c5.large", capacity_type=labels.RESERVED)
    assert cheapest("m5.16xlarge", *refusals, capacity_type=labels.RESERVED) is None


@pytest.mark.integration
def test_a_prepared_request_knows_the_cheapest_type_that_it_leaves_out(
    provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    types = ("node.kubernetes.io/instance-type", "In", ["m5.large", "m5.16xlarge"])
    claim = node_claim(types, ("karpenter.sh/capacity-type", "In", ["on-demand"]), name="static-1")
    assert provider.prepare_launch(claim, ready_class, 1).left_out is None
    unavailable = UnavailableOfferings([OfferingKey("on-demand", "m5.large", "")])
    prepared = provider.prepare_launch(claim, ready_class, 2, unavailable)
    assert {row.instance_type for template in prepared.templates for row in template.overrides} == {"m5.16xlarge"}
    assert prepared.left_out is not None
    assert (prepared.left_out.instance_type, prepared.left_out.price) == ("m5.large", 0.096)
