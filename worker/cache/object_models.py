"""The models of objects that users write: parsed again only after a change, and None if they cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from tenon.apis.base import ApiModel
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.validation import FieldError, parse
from tenon.kube.records import ObjectRecord
from worker.cache.cluster import ClusterCache

if TYPE_CHECKING:  # each is loaded with the first object of its kind: a plan from files has none of most
    from activities.disruption.repair_policies import RepairPolicies
    from tenon.apis.disruptionfreeze import DisruptionFreeze
    from tenon.apis.noderepairpolicy import NodeRepairPolicy
    from tenon.apis.noderollout import NodeRollout

ModelT = TypeVar("ModelT", bound=ApiModel)
Parsed = tuple[ModelT | None, list[FieldError]]
"""An object's model, None if it cannot be read, and its validation errors."""
Versions = dict[str, tuple[str, Parsed[ModelT]]]
"""By name, the resource version of an object and what it says."""


class ObjectModels:
    """The models of the objects in the cache."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._overlays: Versions[NodeOverlay] = {}
        self._repair_policies: Versions[NodeRepairPolicy] = {}
        self._freezes: Versions[DisruptionFreeze] = {}
        self._node_rollouts: Versions[NodeRollout] = {}

    def node_overlay(self, record: ObjectRecord) -> Parsed[NodeOverlay]:
        """A NodeOverlay's model, and its validation errors."""
        return parsed(self._overlays, NodeOverlay, record)

    def overlays(self) -> list[NodeOverlay]:
        """The valid NodeOverlays. Empty while their feature gate is off, because the cache does not read them then."""
        parsed_overlays = [
            (record, parsed) for record in self._cache.overlays if (parsed := self.node_overlay(record))[0]
        ]
        return [
            model
            for record, (model, faults) in parsed_overlays
            if model is not None and not faults and not record.deleting
        ]

    def disruption_freeze(self, record: ObjectRecord) -> Parsed[DisruptionFreeze]:
        """A DisruptionFreeze's model, and its validation errors."""
        from tenon.apis.disruptionfreeze import DisruptionFreeze

        return parsed(self._freezes, DisruptionFreeze, record)

    def disruption_freezes(self) -> list[DisruptionFreeze]:
        """The DisruptionFreezes that can be read."""
        return [
            model
            for record in self._cache.freezes
            if (model := self.disruption_freeze(record)[0]) is not None and not record.deleting
        ]

    def node_rollout(self, record: ObjectRecord) -> Parsed[NodeRollout]:
        """A NodeRollout's model, and its validation errors."""
        from tenon.apis.noderollout import NodeRollout

        return parsed(self._node_rollouts, NodeRollout, record)

    def repair_policy(self, record: ObjectRecord) -> Parsed[NodeRepairPolicy]:
        """A NodeRepairPolicy's model, and its validation errors."""
        from tenon.apis.noderepairpolicy import NodeRepairPolicy

        return parsed(self._repair_policies, NodeRepairPolicy, record)

    def repair_policies(self) -> RepairPolicies:
        """The NodeRepairPolicies that users wrote, and the names of those that have problems."""
        from activities.disruption.repair_policies import RepairPolicies
        from tenon.apis.noderepairpolicy import BUILT_IN

        policies: list[NodeRepairPolicy] = []
        invalid: set[str] = set()
        for record in self._cache.repair_policies:
            model, faults = self.repair_policy(record)
            if model is None or record.deleting or record.name == BUILT_IN:
                continue
            policies.append(model)
            if faults:
                invalid.add(record.name)
        return RepairPolicies(policies, invalid)


def parsed(versions: Versions[ModelT], model: type[ModelT], record: ObjectRecord) -> Parsed[ModelT]:
    """Return what an object says. ``versions`` keeps it until the object changes."""
    cached = versions.get(record.name)
    if cached is None or cached[0] != record.resource_version:
        cached = versions[record.name] = (record.resource_version, parse(model, record.body))
    return cached[1]
