"""The launch of an EC2NodeClass that is only tried out: EC2 judges the rights of its calls, nothing else (AWS-167)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeclaim import NodeClaim
from tenon.ec2.families.cluster import Cluster
from tenon.ec2.launch.filters import NoImageError, NoOfferingError
from tenon.ec2.launch.request import LaunchPlan, plan_launch
from tenon.ec2.launch.template import tag_list
from tenon.kube.requirements import Requirements
from tenon.scheduling.model import InstanceType

REASONS = {
    "CreateLaunchTemplate": "CreateLaunchTemplateAuthCheckFailed",
    "CreateFleet": "CreateFleetAuthCheckFailed",
    "RunInstances": "RunInstancesAuthCheckFailed",
}
"""The calls that are tried out, in the order of a launch, with the reason of the condition if EC2 refuses one."""
MOST_RESERVATIONS = 5
"""How many capacity reservations of a class are tried out: each costs a call. Rights rarely differ between them."""
_NAME = "dry-run"
_AS_IN_TEMPLATE = ("Placement", "CapacityReservationSpecification", "InstanceMarketOptions")
"""What names a placement group and a capacity reservation, in the same form in a template and in RunInstances."""


@dataclass(frozen=True, slots=True)
class Trial:
    """A launch as it would be, and the RunInstances call that needs the same rights as its instances."""

    plan: LaunchPlan
    run_instances: dict[str, Any]
    operations: Sequence[str] = tuple(REASONS)
    """The calls of the launch that need rights which no other trial of the class needs."""

    @property
    def digest(self) -> str:
        """Equal for equal trials, so that a trial that passed is not repeated."""
        content = [
            self.plan.request.model_dump(mode="json"),
            [template.name for template in self.plan.templates],
            self.run_instances,
        ]
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def trials_of(
    node_class: EC2NodeClass,
    cluster: Cluster,
    instance_types: Sequence[InstanceType],
    pool_requirements: Sequence[Requirements] = (),
) -> Iterator[Trial]:
    """Yield the trials of a resolved class: of its cheapest on-demand instance type, and of its capacity reservations.

    EC2 judges the rights on a reservation at RunInstances only. There is no trial of what the class cannot buy.

    Args:
        node_class: the class.
        cluster: the cluster that its nodes join.
        instance_types: what the class can buy.
        pool_requirements: those of each of its NodePools. Only types that one of them selects are tried out, because
            a policy may allow no others. If they select none, all types are.

    Raises:
        ValueError: the class's user data cannot be rendered.
    """
    instance_types = [kind for kind in instance_types if _is_selected(kind, pool_requirements)] or instance_types
    cheapest = sorted(instance_types, key=lambda kind: (_price(kind), kind.name))
    on_demand = (_trial(node_class, cluster, instance_type, labels.ON_DEMAND) for instance_type in cheapest)
    first_trial = next(filter(None, on_demand), None)
    if first_trial is not None:
        yield first_trial
    reserved = [
        (reserved_offering, instance_type)
        for instance_type in instance_types
        for reserved_offering in instance_type.offerings
        if reserved_offering.reservation_id
    ]
    for offering, instance_type in sorted(reserved, key=lambda pair: pair[0].reservation_id)[:MOST_RESERVATIONS]:
        # It may be full now. That says nothing about rights.
        free = replace(offering, available=True, reservation_capacity=max(1, offering.reservation_capacity))
        trial = _trial(node_class, cluster, replace(instance_type, offerings=(free,)), labels.RESERVED)
        if trial is not None:
            yield replace(trial, operations=("RunInstances",))


def _is_selected(kind: InstanceType, pool_requirements: Sequence[Requirements]) -> bool:
    """Whether a NodePool selects the type. In which capacity type does not count: each trial has its own."""
    own = Requirements.of(*(item for item in kind.requirements.values() if item.key != labels.CAPACITY_TYPE))
    return any(own.intersects(requirements) for requirements in pool_requirements)


def _trial(node_class: EC2NodeClass, cluster: Cluster, instance_type: InstanceType, capacity_type: str) -> Trial | None:
    claim = NodeClaim.model_validate(
        {
            "metadata": {"name": _NAME, "uid": node_class.metadata.uid},
            "spec": {
                "requirements": [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": [capacity_type]}],
                "nodeClassRef": {"group": labels.AWS_GROUP, "kind": "EC2NodeClass", "name": node_class.metadata.name},
            },
        }
    )
    addresses = {subnet.id: 1 for subnet in node_class.status.subnets}
    try:
        plan = plan_launch(claim, node_class, cluster, [instance_type], addresses, 1)
    except (NoOfferingError, NoImageError):
        return None
    return Trial(plan, _run_instances(node_class, plan))


def _price(instance_type: InstanceType) -> float:
    on_demand = (offering.price for offering in instance_type.offerings if offering.capacity_type == labels.ON_DEMAND)
    return min(on_demand, default=float("inf"))


def _run_instances(node_class: EC2NodeClass, plan: LaunchPlan) -> dict[str, Any]:
    """The parameters of RunInstances that authorization judges, as the fleet would use them."""
    (template,), (config,) = plan.templates, plan.request.templates
    override = config.overrides[0]
    tagged = {"instance": plan.request.tags, "volume": plan.request.tags, "network-interface": template.tags}
    return {
        "MinCount": 1,
        "MaxCount": 1,
        "ImageId": config.image_id,
        "InstanceType": override.instance_type,
        "SubnetId": override.subnet_id,
        "SecurityGroupIds": [group.id for group in node_class.status.security_groups],
        "IamInstanceProfile": template.data["IamInstanceProfile"],
        "BlockDeviceMappings": template.data.get("BlockDeviceMappings", []),
        "MetadataOptions": {
            name: value for name, value in template.data["MetadataOptions"].items() if name != "InstanceMetadataTags"
        },
        "TagSpecifications": [{"ResourceType": kind, "Tags": tag_list(tags)} for kind, tags in tagged.items()],
        **{name: template.data[name] for name in _AS_IN_TEMPLATE if name in template.data},
    }
