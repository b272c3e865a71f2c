"""The labels of a NodeClaim after its instance is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tenon.apis import labels
from tenon.ec2.types.placement_groups import PLACEMENT_GROUP_LABELS
from tenon.kube.requirements import IN, Requirements
from tenon.scheduling.model import InstanceType

if TYPE_CHECKING:  # plans ask for the tenancy, and need no message
    from tenon.messages.launch import Instance


def tenancy(requirements: Requirements) -> str:
    """Return the tenancy of an instance: dedicated, which costs more, only if the requirements exclude default."""
    return labels.DEFAULT_TENANCY if requirements.get(labels.TENANCY).has(labels.DEFAULT_TENANCY) else labels.DEDICATED


def launched_labels(claim: Mapping[str, Any], instance: Instance, kind: InstanceType | None) -> dict[str, str]:
    """Return the resolved labels: of the claim's requirements, of the type, and of the offering.

    The placement group is that of the instance: the EC2NodeClass, from which ``kind`` comes, may name another by now.
    """
    requirements = Requirements.from_terms((claim.get("spec") or {}).get("requirements") or ())
    known_labels = {**_chosen_labels(claim, requirements, kind), **requirements.labels()}
    offering = {
        labels.TENANCY: tenancy(requirements),
        labels.INSTANCE_TYPE: instance.instance_type,
        labels.ZONE: instance.zone,
        labels.CAPACITY_TYPE: instance.capacity_type,
    }
    described = kind.requirements.labels() if kind is not None else {}
    zone_id = next((o.zone_id for o in kind.offerings if o.zone == instance.zone and o.zone_id), "") if kind else ""
    if zone_id:
        offering[labels.ZONE_ID] = zone_id
    if instance.placement_group_id:
        offering[labels.PLACEMENT_GROUP_ID] = instance.placement_group_id
    if instance.partition:
        offering[labels.PLACEMENT_GROUP_PARTITION] = str(instance.partition)
    if instance.reservation_id:
        offering |= {
            labels.RESERVATION_ID: instance.reservation_id,
            labels.RESERVATION_TYPE: instance.reservation_type or labels.DEFAULT_RESERVATION,
            labels.RESERVATION_INTERRUPTIBLE: str(instance.reservation_interruptible).lower(),
        }
    expected = {key: value for key, value in {**known_labels, **described}.items() if key not in PLACEMENT_GROUP_LABELS}
    return {**expected, **offering}


def _chosen_labels(claim: Mapping[str, Any], requirements: Requirements, kind: InstanceType | None) -> dict[str, str]:
    """Return the first of several values for each label that neither the instance nor the claim's labels decide.

    Claims that Tenon plans list one value. In others, pods that accept any of the values wait for a Node with one.
    """
    decided_keys = labels.WELL_KNOWN.union(
        kind.requirements if kind is not None else (), (claim.get("metadata") or {}).get("labels") or ()
    )
    return {
        key: requirement.values[0]
        for key, requirement in requirements.items()
        if requirement.operator == IN and key not in decided_keys
    }
