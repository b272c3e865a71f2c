"""AWS-043: EC2 has no address left in a subnet that still had some when it was chosen."""

from __future__ import annotations

from typing import Any

import pytest

from activities.ec2.client import Ec2
from activities.ec2.errors import InsufficientCapacityError
from activities.ec2.launch import fleet_parameters
from activities.ec2.network import EXPECTED_SECONDS, FULL_SECONDS, Network
from activities.ec2.provider import Ec2Provider
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.kube.offerings import OfferingKey
from tenon.messages.launch import LaunchRequest
from tests.ec2.conftest import Administrator
from tests.ec2.samples import node_claim, node_class

pytestmark = pytest.mark.integration

ZONE = "us-west-2d"
TYPE = "node.kubernetes.io/instance-type"


@pytest.fixture(scope="module")
def subnets(admin: Administrator) -> list[str]:
    """Two subnets of one zone with eleven addresses each, in place of the large one."""
    expectation: Any = [
        {"Name": "availability-zone", "Values": [ZONE]},
        {"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]},
    ]
    (large,) = admin.ec2.describe_subnets(Filters=expectation)["Subnets"]
    admin.ec2.delete_subnet(SubnetId=large["SubnetId"])
    return [
        admin.ec2.create_subnet(VpcId=large["VpcId"], CidrBlock=block, AvailabilityZone=ZONE)["Subnet"]["SubnetId"]
        for block in ("10.0.192.0/28", "10.0.192.16/28")
    ]


def fill(admin: Administrator, request: LaunchRequest) -> None:
    """Somebody else takes all addresses of the subnet of the request."""
    (subnet,) = admin.ec2.describe_subnets(SubnetIds=sorted(used(request)))["Subnets"]
    parameters = fleet_parameters(request)
    parameters["ClientToken"] = f"fill-{subnet['SubnetId']}"
    parameters["TargetCapacitySpecification"]["TotalTargetCapacity"] = subnet["AvailableIpAddressCount"]
    assert admin.ec2.create_fleet(**parameters)["Instances"]


def used(request: LaunchRequest) -> set[str]:
    return {row.subnet_id for template in request.templates for row in template.overrides}


def claim_in(zone: str, name: str) -> NodeClaim:
    return node_claim(
        (TYPE, "In", ["m5.large"]),
        ("topology.kubernetes.io/zone", "In", [zone]),
        ("karpenter.sh/capacity-type", "In", ["on-demand"]),
        name=name,
    )


def test_aws120_a_burst_of_launches_is_spread_over_the_subnets_of_a_zone(clients: Ec2, subnets: list[str]) -> None:
    """Before EC2 counts any address: each launch counts with those of its pods, in every subnet that it may get.

    What was launched elsewhere is given back, and what was not launched at all, too. No prediction makes a subnet full.
    """
    now = [0.0]
    network = Network(clients, clock=lambda: now[0])
    item, other = subnets
    free = network.free_addresses(subnets)
    assert free[item] == free[other]
    network.expect("a", {item: 4})
    assert network.free_addresses(subnets) == {item: free[item] - 4, other: free[other]}
    network.expect("b", {item: 4, other: 3})
    network.expect("c", {other: 1000})
    assert network.free_addresses(subnets) == {item: free[item] - 8, other: 1}
    network.settle("b", item)
    network.settle("c", "")
    assert network.free_addresses(subnets) == {item: free[item] - 9, other: free[other]}
    network.settle("launched by another replica", other)
    assert network.free_addresses(subnets)[other] == free[other] - 1
    now[0] = EXPECTED_SECONDS
    assert network.free_addresses(subnets) == free, "EC2 has counted them, if there are any"


def test_aws120_the_next_launch_takes_the_other_subnet(provider: Ec2Provider, subnets: list[str]) -> None:
    terms = [{"id": subnet_id} for subnet_id in subnets]
    written = node_class({}, role="KarpenterNodeRole-sandbox", subnetSelectorTerms=terms)
    ready = written.model_copy(update={"status": provider.resolve_node_class(written)})
    first, second = (provider.prepare_launch(claim_in(ZONE, f"burst-{number}"), ready, 1) for number in (1, 2))
    assert used(first) | used(second) == set(subnets)


def test_aws043_only_the_full_subnet_is_avoided_and_the_zone_once_all_are_full(
    provider: Ec2Provider, admin: Administrator, subnets: list[str]
) -> None:
    terms = [{"id": subnet_id} for subnet_id in subnets]
    written = node_class({}, role="KarpenterNodeRole-sandbox", subnetSelectorTerms=terms)
    ready = written.model_copy(update={"status": provider.resolve_node_class(written)})
    claim = claim_in(ZONE, "crowded-1")

    first = provider.prepare_launch(claim, ready, 1)
    (full,) = used(first)
    fill(admin, first)
    refused = provider.launch(first)
    assert refused.instance is None
    assert refused.reason == "InsufficientFreeAddressesInSubnet"
    assert refused.unavailable == [], "neither the type nor the zone is out of capacity"
    assert refused.waits is not None, "the claim stays, and its next attempt takes another subnet"

    second = provider.prepare_launch(claim, ready, 2)
    (other,) = used(second)
    assert {full, other} == set(subnets)
    fill(admin, second)
    assert provider.launch(second).instance is None
    with pytest.raises(
        InsufficientCapacityError, match=f"no subnet of the class in {ZONE} has a free address"
    ) as raises:
        provider.prepare_launch(claim, ready, 3)
    assert [item.key for item in raises.value.unavailable] == [OfferingKey("on-demand", "m5.large", ZONE)]


def test_aws043_a_claim_that_lacks_something_else_rules_out_no_zone(
    provider: Ec2Provider, ready_class: EC2NodeClass
) -> None:
    none = node_claim((TYPE, "In", ["no.such"]), name="impossible-1")
    with pytest.raises(InsufficientCapacityError) as raises:
        provider.prepare_launch(none, ready_class, 1)
    assert raises.value.unavailable == []


def test_aws043_a_subnet_that_ec2_called_full_stays_so_for_three_minutes(clients: Ec2) -> None:
    """AWS-033: whatever its count says, because single addresses may be free between prefixes."""
    now = [0.0]
    network = Network(clients, clock=lambda: now[0])
    subnet_id = clients.ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    assert network.free_addresses([subnet_id])[subnet_id] > 0
    network.mark_full(subnet_id)
    now[0] = FULL_SECONDS - 1
    assert network.free_addresses([subnet_id]) == {subnet_id: 0}
    now[0] = FULL_SECONDS
    assert network.free_addresses([subnet_id])[subnet_id] > 0
