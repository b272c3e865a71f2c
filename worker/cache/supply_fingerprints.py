"""Says when a pod that did not fit anywhere might fit now, so that no plan is made for it before."""

from __future__ import annotations

import json

from activities.cluster_view.interfaces import Fingerprint
from tenon.apis import labels
from tenon.apis.nodepool import NODE_LAUNCH_HEALTHY
from tenon.apis.teardown import is_torn_down
from tenon.kube.records import ObjectRecord
from worker.cache.cluster import ClusterCache
from worker.cache.node_pool_view import NodePoolView


class SupplyFingerprints:
    """Fingerprints of what the cluster has, and of what can be bought."""

    def __init__(self, cache: ClusterCache, view: NodePoolView, *, limits_total_cost: bool) -> None:
        """``limits_total_cost``: whether a limit on costs applies to all NodePools together."""
        self._cache = cache
        self._view = view
        self._limits_total_cost = limits_total_cost
        self._supplies: dict[str, tuple[ObjectRecord, str]] = {}
        """By EC2NodeClass, its record and what its status offers, as text."""

    def now(self) -> Fingerprint:
        """A value that changes whenever a pod that did not fit anywhere might fit now."""
        pools = tuple(
            (
                *pool.version_of_spec,
                _ready(pool),
                _launches(pool),
                self._freed(pool),
                is_torn_down(pool.annotations),
                pool.annotations.get(labels.MAX_HOURLY_COST),
            )
            for pool in self._cache.pools
        )
        classes = tuple((*record.version_of_spec, self._found(record)) for record in self._cache.nodeclasses)
        overlays = frozenset(overlay.version_of_spec for overlay in self._cache.overlays)
        versions = frozenset((name, rollout.current) for name, rollout in self._view.rollouts().items())
        supply = (pools, classes, overlays, versions, self._schedules_version())
        return Fingerprint(supply, self._cache.namespace_changes)

    def _schedules_version(self) -> int:
        """A number that changes with what schedules ask for."""
        self._view.schedules.now()
        return self._view.schedules.changes

    def _freed(self, pool: ObjectRecord) -> int:
        """A counter that increases when a NodePool with limits may have room again. 0 for pools without limits."""
        demand = self._view.schedules.now().pools.get(pool.name)
        if self._limits_total_cost:
            return self._cache.limits_eased.total()
        is_limited = (
            pool.spec.get("limits")
            or labels.MAX_HOURLY_COST in pool.annotations
            or (demand is not None and demand.limits)
        )
        return self._cache.limits_eased[pool.name] if is_limited else 0

    def _found(self, node_class: ObjectRecord) -> str:
        """Whether a class is ready, and the subnets, AMIs and other resources in its status, as text."""
        supply = self._supplies.get(node_class.name)
        if supply is None or supply[0] is not node_class:
            status_fields = {key: value for key, value in node_class.status.items() if key != "conditions"}
            text = f"{_ready(node_class)} {json.dumps(status_fields, sort_keys=True)}"
            supply = self._supplies[node_class.name] = (node_class, text)
        return supply[1]


def _ready(record: ObjectRecord) -> str:
    return str(record.condition("Ready").get("status", ""))


def _launches(pool: ObjectRecord) -> bool:
    """Whether EC2 accepts the pool's launches, as far as is known."""
    return bool(pool.condition(NODE_LAUNCH_HEALTHY).get("status", "True") == "True")
