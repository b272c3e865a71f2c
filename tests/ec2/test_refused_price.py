"""What an instance would have cost if EC2 had not refused cheaper offerings of its request."""

from __future__ import annotations

import pytest

from tenon.apis import labels
from tenon.ec2.refused_price import cheapest_refused
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.messages.launch import FleetOverride, FleetTemplate, Instance, LaunchRequest, OfferingRef

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
    found = cheapest_refused(request(capacity_type), refusals, bought(name, capacity_type))
    return None if found is None else found.instance_type


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
        OfferingRef(
            capacity_type=labels.ON_DEMAND, instance_type=OfferingKey.of_quota("", "Standard").instance_type, zone=""
        ),
    ],
    ids=["the type in every zone", "the quota of the type"],
)
def test_a_refusal_of_more_than_one_offering_counts(refusal: OfferingRef) -> None:
    assert cheapest("m5.16xlarge", refusal) == "c5.large"


def test_a_place_in_a_reservation_is_paid_for_already() -> None:
    refusals = refused("c5.large", capacity_type=labels.RESERVED)
    assert cheapest("m5.16xlarge", *refusals, capacity_type=labels.RESERVED) is None
