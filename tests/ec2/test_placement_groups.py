"""Placement groups on the sandbox's EC2: found, launched into, full, and what EC2 refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from activities.ec2.client import Ec2
from activities.ec2.errors import InsufficientCapacityError
from activities.ec2.provider import Ec2Provider
from sandbox.ec2.consistency import Delays
from tenon.apis import labels
from tenon.apis.common import Condition
from tenon.apis.conditions import get_condition
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.ec2.launch.launched_labels import launched_labels
from tenon.ec2.nodeclass.status import not_ready
from tenon.messages.launch import Instance
from tests.ec2.conftest import until_shown
from tests.ec2.samples import node_claim, node_class

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sandbox.ec2.placement_groups import PlacementGroup
    from sandbox.ec2.server import Server

pytestmark = pytest.mark.integration

ON_DEMAND = ("karpenter.sh/capacity-type", "In", ["on-demand"])
M5 = ("node.kubernetes.io/instance-type", "In", ["m5.large"])


@pytest.fixture(autouse=True)
def _no_groups(server: Server) -> Iterator[None]:
    yield
    server.world.groups.clear()


def in_group(provider: Ec2Provider, **selector: str) -> EC2NodeClass:
    """A class that selects a placement group, resolved."""
    empty: dict[str, object] = {"subnets": [], "securityGroups": [], "amis": [], "instanceProfile": None}
    written = node_class(empty, role="KarpenterNodeRole-sandbox", placementGroupSelector=selector)
    return written.model_copy(update={"status": provider.resolve_node_class(written)})


def ready(node_class: EC2NodeClass) -> Condition:
    condition = get_condition(node_class.status.conditions, "PlacementGroupReady")
    assert condition is not None
    return condition


def launch(provider: Ec2Provider, node_class: EC2NodeClass, name: str, *terms: Any) -> Instance:
    claim = node_claim(ON_DEMAND, *terms, name=name)
    result = provider.launch(provider.prepare_launch(claim, node_class, 1))
    assert result.instance is not None, result.message
    return result.instance


def placement(clients: Ec2, instance: Instance) -> dict[str, Any]:
    raw = clients.ec2.describe_instances(InstanceIds=[instance.id])["Reservations"][0]["Instances"][0]
    return dict(raw["Placement"])


@pytest.fixture
def spread(server: Server) -> PlacementGroup:
    return server.world.groups.create("rack", "spread")


def test_ec04_a_group_is_found_by_name_or_id(provider: Ec2Provider, spread: PlacementGroup) -> None:
    for selector in ({"name": "rack"}, {"id": spread.id}):
        node_class = in_group(provider, **selector)
        assert ready(node_class).status == "True"
        assert node_class.status.to_dict()["placementGroup"] == {"id": spread.id, "name": "rack", "strategy": "spread"}


@pytest.mark.parametrize("selector", [{"name": "other"}, {"id": "pg-0123456789abcdef0"}], ids=str)
def test_ecs7_a_group_that_does_not_exist_is_a_finding(
    provider: Ec2Provider, spread: PlacementGroup, selector: dict[str, str]
) -> None:
    """Nothing is launched outside of it."""
    node_class = in_group(provider, **selector)
    assert (ready(node_class).status, ready(node_class).reason) == ("False", "PlacementGroupNotFound")
    assert next(iter(selector.values())) in ready(node_class).message
    assert not_ready(node_class)


def test_ecs7_a_refused_call_is_a_finding(provider: Ec2Provider, server: Server) -> None:
    from sandbox.ec2.faults import Fault

    server.world.faults.add(Fault(action="DescribePlacementGroups", code="UnauthorizedOperation", status=403))
    condition = ready(in_group(provider, name="rack"))
    assert condition.reason == "Unauthorized"
    assert "ec2:DescribePlacementGroups" in condition.message
    server.world.faults.add(Fault(action="DescribePlacementGroups", code="InvalidParameterValue", status=400))
    assert ready(in_group(provider, name="rack")).reason == "PlacementGroupResolutionFailed"


def test_aws112_alb20_an_instance_is_launched_into_the_group(
    provider: Ec2Provider, clients: Ec2, server: Server, spread: PlacementGroup
) -> None:
    node_class = in_group(provider, name="rack")
    instance = launch(provider, node_class, "spread-1", M5)
    until_shown(server, instance.id)
    assert placement(clients, instance)["GroupId"] == spread.id
    kind = next(
        instance_type for instance_type in provider.instance_types(node_class) if instance_type.name == "m5.large"
    )
    result = launched_labels({}, instance, kind)
    assert result[labels.PLACEMENT_GROUP_ID] == spread.id
    assert labels.PLACEMENT_GROUP_PARTITION not in result


def test_aws112_the_labels_are_those_of_the_instances_own_group(
    provider: Ec2Provider, server: Server, spread: PlacementGroup, ready_class: EC2NodeClass
) -> None:
    """The class may name another group, or none, by the time the instance is known. Drift replaces the node then."""
    instance = launch(provider, in_group(provider, name="rack"), "moved-1", M5)
    server.world.groups.create("parts", "partition", 1)
    for later in (ready_class, in_group(provider, name="parts")):
        kind = next(
            instance_type for instance_type in provider.instance_types(later) if instance_type.name == "m5.large"
        )
        result = launched_labels({}, instance, kind)
        assert result[labels.PLACEMENT_GROUP_ID] == spread.id
        assert labels.PLACEMENT_GROUP_PARTITION not in result
    outside = launch(provider, ready_class, "moved-2", M5)
    assert labels.PLACEMENT_GROUP_ID not in launched_labels({}, outside, kind)


def test_aws112_an_instance_that_is_shown_late_has_its_group_and_partition(
    provider: Ec2Provider, server: Server
) -> None:
    """The request says both, where a partition was asked for."""
    output = server.world.groups.create("parts", "partition", 3)
    node_class = in_group(provider, name="parts")
    server.world.consistency.delays = Delays(instance=600.0, chance=1.0)
    second = (labels.PLACEMENT_GROUP_PARTITION, "In", ["2"])
    instance = launch(provider, node_class, "late-1", M5, second)
    server.world.consistency.restore()
    assert instance.private_dns_name == "", "EC2 does not show it"
    assert (instance.placement_group_id, instance.partition) == (output.id, 2)


def test_aws112_alb20_a_partition_is_asked_for_or_read_back(
    provider: Ec2Provider, clients: Ec2, server: Server
) -> None:
    server.world.groups.create("parts", "partition", 3)
    node_class = in_group(provider, name="parts")
    kind = next(
        instance_type for instance_type in provider.instance_types(node_class) if instance_type.name == "m5.large"
    )
    assert kind.requirements[labels.PLACEMENT_GROUP_PARTITION].values == ("1", "2", "3")
    second = (labels.PLACEMENT_GROUP_PARTITION, "In", ["2"])
    instance = launch(provider, node_class, "partition-1", M5, second)
    until_shown(server, instance.id)
    assert placement(clients, instance)["PartitionNumber"] == 2
    free = launch(provider, node_class, "partition-2", M5)
    until_shown(server, free.id)
    number = placement(clients, free)["PartitionNumber"]
    assert number in (1, 3)
    describe_instance = provider.describe_instance(free.id)
    assert describe_instance is not None
    assert launched_labels({}, describe_instance, kind)[labels.PLACEMENT_GROUP_PARTITION] == str(number)


def test_aws077_a_cluster_takes_no_burstable_types(provider: Ec2Provider, server: Server) -> None:
    server.world.groups.create("near", "cluster")
    names = {instance_type.name for instance_type in provider.instance_types(in_group(provider, name="near"))}
    assert "m5.large" in names
    assert not any(name.startswith("t3.") for name in names)


def test_aws044_a_full_spread_group_has_no_capacity_in_its_zone(
    provider: Ec2Provider, spread: PlacementGroup, ready_class: EC2NodeClass
) -> None:
    """Seven instances in a zone: the claim gets another zone, or none and is planned again.

    No class of this group buys anything there for a while, and the others buy as before.
    """
    node_class = in_group(provider, name="rack")
    place = ("topology.kubernetes.io/zone", "In", ["us-west-2a"])
    for number in range(7):
        launch(provider, node_class, f"full-{number}", M5, place)
    claim = node_claim(ON_DEMAND, M5, place, name="full-7")
    refused = provider.launch(provider.prepare_launch(claim, node_class, 1))
    assert refused.instance is None
    assert refused.waits is None
    unavailable = {item.key for item in refused.unavailable}

    def sold_in_the_zone(of: EC2NodeClass) -> set[str]:
        types = provider.instance_types(of, unavailable)
        return {item.name for item in types for o in item.offerings if o.available and o.zone == "us-west-2a"}

    assert sold_in_the_zone(node_class) == set()
    assert sold_in_the_zone(ready_class) == {
        instance_type.name for instance_type in provider.instance_types(ready_class)
    }
    with pytest.raises(InsufficientCapacityError):
        provider.prepare_launch(claim, node_class, 2, unavailable)
    assert launch(provider, node_class, "full-8", M5).zone != "us-west-2a"
    assert launch(provider, ready_class, "outside", M5, place).zone == "us-west-2a"
