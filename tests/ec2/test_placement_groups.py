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


def ready(chosen: EC2NodeClass) -> Condition:
    found = get_condition(chosen.status.conditions, "PlacementGroupReady")
    assert found is not None
    return found


def launch(provider: Ec2Provider, chosen: EC2NodeClass, name: str, *terms: Any) -> Instance:
    claim = node_claim(ON_DEMAND, *terms, name=name)
    result = provider.launch(provider.prepare_launch(claim, chosen, 1))
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
        chosen = in_group(provider, **selector)
        assert ready(chosen).status == "True"
        assert chosen.status.to_dict()["placementGroup"] == {"id": spread.id, "name": "rack", "strategy": "spread"}


@pytest.mark.parametrize("selector", [{"name": "other"}, {"id": "pg-0123456789abcdef0"}], ids=str)
def test_ecs7_a_group_that_does_not_exist_is_a_finding(
    provider: Ec2Provider, spread: PlacementGroup, selector: dict[str, str]
) -> None:
    """Nothing is launched outside of it."""
    chosen = in_group(provider, **selector)
    assert (ready(chosen).status, ready(chosen).reason) == ("False", "PlacementGroupNotFound")
    assert next(iter(selector.values())) in ready(chosen).message
    assert not_ready(chosen)


def test_ecs7_a_refused_call_is_a_finding(provider: Ec2Provider, server: Server) -> None:
    from sandbox.ec2.faults import Fault

    server.world.faults.add(Fault(action="DescribePlacementGroups", code="UnauthorizedOperation", status=403))
    found = ready(in_group(provider, name="rack"))
    assert found.reason == "Unauthorized"
    assert "ec2:DescribePlacementGroups" in found.message
    server.world.faults.add(Fault(action="DescribePlacementGroups", code="InvalidParameterValue", status=400))
    assert ready(in_group(provider, name="rack")).reason == "PlacementGroupResolutionFailed"


def test_aws112_alb20_an_instance_is_launched_into_the_group(
    provider: Ec2Provider, clients: Ec2, server: Server, spread: PlacementGroup
) -> None:
    chosen = in_group(provider, name="rack")
    instance = launch(provider, chosen, "spread-1", M5)
    until_shown(server, instance.id)
    assert placement(clients, instance)["GroupId"] == spread.id
    kind = next(each for each in provider.instance_types(chosen) if each.name == "m5.large")
    found = launched_labels({}, instance, kind)
    assert found[labels.PLACEMENT_GROUP_ID] == spread.id
    assert labels.PLACEMENT_GROUP_PARTITION not in found


def test_aws112_the_labels_are_those_of_the_instances_own_group(
    provider: Ec2Provider, server: Server, spread: PlacementGroup, ready_class: EC2NodeClass
) -> None:
    """The class may name another group, or none, by the time the instance is known. Drift replaces the node then."""
    instance = launch(provider, in_group(provider, name="rack"), "moved-1", M5)
    server.world.groups.create("parts", "partition", 1)
    for later in (ready_class, in_group(provider, name="parts")):
        kind = next(each for each in provider.instance_types(later) if each.name == "m5.large")
        found = launched_labels({}, instance, kind)
        assert found[labels.PLACEMENT_GROUP_ID] == spread.id
        assert labels.PLACEMENT_GROUP_PARTITION not in found
    outside = launch(provider, ready_class, "moved-2", M5)
    assert labels.PLACEMENT_GROUP_ID not in launched_labels({}, outside, kind)


def test_aws112_an_instance_that_is_shown_late_has_its_group_and_partition(
    provider: Ec2Provider, server: Server
) -> None:
    """The request says both, where a partition was asked for."""
    made = server.world.groups.create("parts", "partition", 3)
    chosen = in_group(provider, name="parts")
    server.world.consistency.delays = Delays(instance=600.0, chance=1.0)
    second = (labels.PLACEMENT_GROUP_PARTITION, "In", ["2"])
    instance = launch(provider, chosen, "late-1", M5, second)
    server.world.consistency.restore()
    assert instance.private_dns_name == "", "EC2 does not show it"
    assert (instance.placement_group_id, instance.partition) == (made.id, 2)


def test_aws112_alb20_a_partition_is_asked_for_or_read_back(
    provider: Ec2Provider, clients: Ec2, server: Server
) -> None:
    server.world.groups.create("parts", "partition", 3)
    chosen = in_group(provider, name="parts")
    kind = next(each for each in provider.instance_types(chosen) if each.name == "m5.large")
    assert kind.requirements[labels.PLACEMENT_GROUP_PARTITION].values == ("1", "2", "3")
    second = (labels.PLACEMENT_GROUP_PARTITION, "In", ["2"])
    asked = launch(provider, chosen, "partition-1", M5, second)
    until_shown(server, asked.id)
    assert placement(clients, asked)["PartitionNumber"] == 2
    free = launch(provider, chosen, "partition-2", M5)
    until_shown(server, free.id)
    number = placement(clients, free)["PartitionNumber"]
    assert number in (1, 3)
    known = provider.describe_instance(free.id)
    assert known is not None
    assert launched_labels({}, known, kind)[labels.PLACEMENT_GROUP_PARTITION] == str(number)


def test_aws077_a_cluster_takes_no_burstable_types(provider: Ec2Provider, server: Server) -> None:
    server.world.groups.create("near", "cluster")
    names = {each.name for each in provider.instance_types(in_group(provider, name="near"))}
    assert "m5.large" in names
    assert not any(name.startswith("t3.") for name in names)


def test_aws044_a_full_spread_group_has_no_capacity_in_its_zone(
    provider: Ec2Provider, spread: PlacementGroup, ready_class: EC2NodeClass
) -> None:
    """Seven instances in a zone: the claim gets another zone, or none and is planned again.

    No class of this group buys anything there for a while, and the others buy as before.
    """
    chosen = in_group(provider, name="rack")
    here = ("topology.kubernetes.io/zone", "In", ["us-west-2a"])
    for number in range(7):
        launch(provider, chosen, f"full-{number}", M5, here)
    claim = node_claim(ON_DEMAND, M5, here, name="full-7")
    refused = provider.launch(provider.prepare_launch(claim, chosen, 1))
    assert refused.instance is None
    assert refused.waits is None
    avoided = {each.key for each in refused.unavailable}

    def sold_in_the_zone(of: EC2NodeClass) -> set[str]:
        types = provider.instance_types(of, avoided)
        return {each.name for each in types for o in each.offerings if o.available and o.zone == "us-west-2a"}

    assert sold_in_the_zone(chosen) == set()
    assert sold_in_the_zone(ready_class) == {each.name for each in provider.instance_types(ready_class)}
    with pytest.raises(InsufficientCapacityError):
        provider.prepare_launch(claim, chosen, 2, avoided)
    assert launch(provider, chosen, "full-8", M5).zone != "us-west-2a"
    assert launch(provider, ready_class, "outside", M5, here).zone == "us-west-2a"
