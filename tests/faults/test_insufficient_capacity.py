"""EC2 does not sell what is cheapest: within one more plan the pods run on what is left, and the refusals are named."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from activities.kubernetes.resources import EVENTS
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from sandbox.ec2.region import REGION
from tenon.apis import labels
from tenon.apis.nodepool import CAPACITY_AVAILABLE
from tests.e2e.conftest import MakePool
from tests.e2e.pools import KEY, Pool, condition
from tests.faults.conftest import Observe
from tests.faults.fleets import Offering, fleets
from tests.workflows.waiting import until

FULL_ZONE, OTHER_ZONE = f"{REGION}a", f"{REGION}b"


def types(generation: str) -> list[str]:
    """Types of one test's own, because the worker avoids for minutes what EC2 refused."""
    return [f"{family}{generation}.large" for family in "cmr"]


def only(names: list[str]) -> list[dict[str, Any]]:
    return [{"key": labels.INSTANCE_TYPE, "operator": "In", "values": names}]


@pytest.fixture(autouse=True)
def sold_again(ec2: Ec2Admin) -> Iterator[None]:
    """What a test left sold out does not concern the next one."""
    yield
    ec2.clear_capacity()


async def bought(pool: Pool, ec2: Ec2Admin, in_vain: int) -> Offering:
    """Deploy a pod and wait until it runs, after exactly so many requests that bought nothing; how its node was bought.

    Each plan makes one NodeClaim for the pod, and each NodeClaim sends one request. So after a refused request the next
    plan buys, one batch window later.
    """
    await pool.deploy(1)
    (pod,) = await pool.running(1)
    (instance,) = pool.instances(await pool.claim_of(pod))
    assert len({request.token for request in fleets(ec2, pool)}) == in_vain + 1
    return instance["capacity_type"], instance["type"], instance["zone"]


async def named(pool: Pool, *words: str) -> None:
    """Wait until the event of a NodeClaim that bought nothing says why."""

    async def told() -> bool:
        events = await pool.kube.list(EVENTS, field_selector="reason=InsufficientCapacityError")
        own = [event for event in events if event["involvedObject"]["name"].startswith(f"{pool.name}-")]
        return any(all(word in item["message"] for word in words) for item in own)

    await until(told)


async def test_the_three_cheapest_offerings_are_sold_out(make_pool: MakePool, observe: Observe, ec2: Ec2Admin) -> None:
    """AWS-033: the same request buys the next cheapest."""
    few = types("6i")
    pool = await make_pool(requirements=only(few))
    async with observe(pool):
        empty = {(item["type"], item["zone"]) for item in ec2.exhaust_cheapest(3, capacity_type="spot", types=few)}
        assert len(empty) == 3
        capacity_type, kind, zone = await bought(pool, ec2, in_vain=0)
        assert capacity_type == "spot"
        assert (kind, zone) not in empty
        await pool.scale(0)


async def test_all_spot_is_sold_out(make_pool: MakePool, observe: Observe, ec2: Ec2Admin) -> None:
    few = types("6a")
    pool = await make_pool(requirements=only(few))
    async with observe(pool):
        for item in few:
            ec2.capacity(0, type=item, capacity_type="spot")
        assert (await bought(pool, ec2, in_vain=1))[0] == "on-demand"
        await named(pool, "InsufficientInstanceCapacity", "There is no Spot capacity available")
        await pool.scale(0)


async def test_evt03_pods_and_their_nodepool_say_what_ec2_lacks(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin
) -> None:
    """The reason is not only in the events of NodeClaims that are gone. Only what lasts names no time to come."""
    few = types("5n")
    pool = await make_pool(requirements=only(few))
    async with observe(pool):
        for item in few:
            ec2.capacity(0, type=item)
        await pool.deploy(1)

        async def pod_says_so() -> bool:
            events = await pool.kube.list(EVENTS, field_selector="reason=FailedScheduling")
            own = [event["message"] for event in events if event["involvedObject"]["name"].startswith(f"{pool.name}-")]
            reasons = [text.partition(f"NodePool {pool.name}: EC2 refuses ")[2] for text in own]
            return any("on-demand offering" in why and " spot offering" in why for why in reasons)

        async def pool_says_so() -> bool:
            result = condition(await pool.read(), CAPACITY_AVAILABLE)
            return result.get("status") == "False" and "NodeClaims found no capacity" in result["message"]

        await until(pod_says_so)
        await until(pool_says_so)
        assert condition(await pool.read(), "Ready")["status"] == "True"
        assert "next attempt at" not in condition(await pool.read(), CAPACITY_AVAILABLE)["message"]
        await pool.scale(0)


async def test_a_whole_zone_is_sold_out(make_pool: MakePool, observe: Observe, ec2: Ec2Admin) -> None:
    pool = await make_pool(requirements=only(types("7i")))
    async with observe(pool):
        ec2.capacity(0, zone=FULL_ZONE)
        assert (await bought(pool, ec2, in_vain=0))[2] != FULL_ZONE
        await pool.scale(0)


@pytest.fixture
def small_subnet(sandbox: Sandbox) -> Iterator[str]:
    """A subnet of `FULL_ZONE` with eleven addresses."""
    aws: Any = sandbox.aws("ec2")
    vpc = _subnet(aws, FULL_ZONE)["VpcId"]
    association = aws.associate_vpc_cidr_block(VpcId=vpc, CidrBlock="10.1.0.0/24")["CidrBlockAssociation"]
    subnet_id = aws.create_subnet(VpcId=vpc, CidrBlock="10.1.0.0/28", AvailabilityZone=FULL_ZONE)["Subnet"]["SubnetId"]
    yield subnet_id
    inside = [{"Name": "subnet-id", "Values": [subnet_id]}]
    for network_interface in aws.describe_network_interfaces(Filters=inside)["NetworkInterfaces"]:
        aws.delete_network_interface(NetworkInterfaceId=network_interface["NetworkInterfaceId"])
    aws.delete_subnet(SubnetId=subnet_id)
    aws.disassociate_vpc_cidr_block(AssociationId=association["AssociationId"])


async def test_a_subnet_has_no_address_left(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin, small_subnet: str, sandbox: Sandbox
) -> None:
    """AWS-043: pods run in another zone's subnet. A pod that needs the zone waits, and its NodeClaim says why."""
    aws: Any = sandbox.aws("ec2")
    terms = [{"id": small_subnet}, {"id": _subnet(aws, OTHER_ZONE)["SubnetId"]}]
    pool = await make_pool(requirements=only(types("7a")), subnetSelectorTerms=terms)
    async with observe(pool):
        while _free(aws, small_subnet):
            aws.create_network_interface(SubnetId=small_subnet)
        assert (await bought(pool, ec2, in_vain=0))[2] == OTHER_ZONE
        await pool.deploy(1, "pinned", nodeSelector={KEY: pool.name, labels.ZONE: FULL_ZONE})
        await named(pool, f"no subnet of the class in {FULL_ZONE} has a free address")
        assert [pod["spec"].get("nodeName") for pod in await pool.pods("pinned")] == [None]
        await pool.scale(0, "pinned")
        await pool.scale(0)


def _subnet(aws: Any, zone: str) -> Any:
    """The cluster's subnet in a zone."""
    filters = [
        {"Name": "availability-zone", "Values": [zone]},
        {"Name": "tag:karpenter.sh/discovery", "Values": ["sandbox"]},
    ]
    (subnet,) = aws.describe_subnets(Filters=filters)["Subnets"]
    return subnet


def _free(aws: Any, subnet: str) -> int:
    (result,) = aws.describe_subnets(SubnetIds=[subnet])["Subnets"]
    return int(result["AvailableIpAddressCount"])
