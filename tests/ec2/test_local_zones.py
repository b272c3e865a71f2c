"""AWS-080: a local zone is a zone like the others, with fewer types."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend, Zone
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.ec2.conftest import Administrator
from tests.ec2.samples import node_claim, node_class

pytestmark = pytest.mark.integration

LOCAL = Zone("us-west-2-lax-1a", "us-west-2", "usw2-lax1-az1", zone_type="local-zone")
SOLD = ("t3.medium", "m5.large")


@pytest.fixture(scope="module")
def few_types() -> Iterator[None]:
    """Two types, of which the local zone sells one."""
    from sandbox.ec2 import catalogue

    regional, zonal = catalogue.regional_types, catalogue.zonal_offerings
    zonal(LOCAL.region_name)  # the process remembers it for the tests that follow, without the zone
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            catalogue, "regional_types", lambda region: {k: v for k, v in regional(region).items() if k in SOLD}
        )
        patch.setattr(
            catalogue,
            "zonal_offerings",
            lambda region: frozenset(pair for pair in zonal(region) if pair[0] in SOLD) | {("t3.medium", LOCAL.name)},
        )
        instance_type_offering = INSTANCE_TYPE_OFFERINGS["availability-zone"]
        row = {"InstanceType": "t3.medium", "LocationType": "availability-zone", "Location": LOCAL.name}
        patch.setitem(instance_type_offering, "us-west-2", [*instance_type_offering["us-west-2"], row])
        zones = RegionsAndZonesBackend.zones
        patch.setitem(zones, "us-west-2", [*zones["us-west-2"], LOCAL])
        yield


@pytest.fixture(scope="module")
def local_class(provider: Ec2Provider, admin: Administrator) -> EC2NodeClass:
    """A class with a subnet in the local zone, and one in a zone of the region."""
    expectation: Any = [{"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]}]
    subnets = {
        subnet["AvailabilityZone"]: subnet for subnet in admin.ec2.describe_subnets(Filters=expectation)["Subnets"]
    }
    replaced = subnets["us-west-2d"]
    admin.ec2.delete_subnet(SubnetId=replaced["SubnetId"])
    output = admin.ec2.create_subnet(
        VpcId=replaced["VpcId"], CidrBlock=replaced["CidrBlock"], AvailabilityZone=LOCAL.name
    )["Subnet"]
    terms = [{"id": output["SubnetId"]}, {"id": subnets["us-west-2a"]["SubnetId"]}]
    empty: dict[str, object] = {"subnets": [], "securityGroups": [], "amis": [], "instanceProfile": None}
    written = node_class(empty, role="KarpenterNodeRole-sandbox", subnetSelectorTerms=terms)
    return written.model_copy(update={"status": provider.resolve_node_class(written)})


def test_aws080_a_type_is_sold_in_a_local_zone_with_a_subnet(provider: Ec2Provider, local_class: EC2NodeClass) -> None:
    """At the price of the region; a type that the local zone does not sell is not offered there."""
    assert {subnet.zone: subnet.zone_id for subnet in local_class.status.subnets}[LOCAL.name] == LOCAL.zone_id
    types = {instance_type.name: instance_type for instance_type in provider.instance_types(local_class)}
    on_demand = {
        name: {offering.zone: offering.price for offering in item.offerings if offering.capacity_type == "on-demand"}
        for name, item in types.items()
    }
    assert on_demand["t3.medium"].keys() == {LOCAL.name, "us-west-2a"}
    assert len(set(on_demand["t3.medium"].values())) == 1
    assert on_demand["m5.large"].keys() == {"us-west-2a"}


def test_aws080_a_claim_for_a_local_zone_is_launched_there(provider: Ec2Provider, local_class: EC2NodeClass) -> None:
    place = ("topology.kubernetes.io/zone", "In", [LOCAL.name])
    on_demand = ("karpenter.sh/capacity-type", "In", ["on-demand"])
    instance = provider.launch(
        provider.prepare_launch(node_claim(place, on_demand, name="lax-1"), local_class, 1)
    ).instance
    assert instance is not None
    assert (instance.zone, instance.instance_type) == (LOCAL.name, "t3.medium")
    assert instance.provider_id == f"aws:///{LOCAL.name}/{instance.id}"
