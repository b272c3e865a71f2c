"""What a NodeClaim's labels become once its instance is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.lifecycle.messages import Instance
from tenon.scheduling.model import InstanceType
from tenon.scheduling.requirements import Requirements


def launched_labels(claim: Mapping[str, Any], instance: Instance, kind: InstanceType | None) -> dict[str, str]:
    """The resolved labels: the claim's single-value requirements, the type's labels, the offering."""
    known = Requirements.from_terms((claim.get("spec") or {}).get("requirements") or ()).labels()
    offering = {
        labels.INSTANCE_TYPE: instance.instance_type,
        labels.ZONE: instance.zone,
        labels.CAPACITY_TYPE: instance.capacity_type,
    }
    described = kind.requirements.labels() if kind is not None else {}
    zone_id = next((o.zone_id for o in kind.offerings if o.zone == instance.zone and o.zone_id), "") if kind else ""
    if zone_id:
        offering[labels.ZONE_ID] = zone_id
    return {**known, **described, **offering}
