"""The pods that stand for the floor of a NodePool: the least that it keeps, as a NodeSchedule asks.

They are treated as the pods of a CapacityBuffer. So plans buy room for them, nodes that hold them are not consolidated,
and waiting pods come first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.provisioning.buffer_status import RESOLVED, ResolvedBuffer
from tenon.resources import format_quantity
from tenon.schedule.desired import PoolDemand

NAMESPACE = "nodeschedule.tenon.sh"
"""The namespace in the keys of floors. No namespace of a cluster has a dot, so no CapacityBuffer has such a key."""
_FLOOR = "tenon.sh/floor"
MAX_PARTS = 100
"""The most pods that stand for spare CPU and memory."""
_PART = {"cpu": 1000, "memory": 4 * 2**30}
"""About the size of each of them, in the units of `tenon.resources`: small enough for nodes of every size."""


def floors(pool: NodePool, demand: PoolDemand) -> dict[str, ResolvedBuffer]:
    """Return the pods that stand for the floor of a NodePool, by key as `ResolvedBuffer`.

    For a number of nodes there is one pod for each, none with another on one node. Spare resources are divided into
    equal parts, which may be on different nodes.
    """
    result = {}
    if demand.floor_nodes:
        result[f"{NAMESPACE}/{pool.metadata.name}-nodes"] = ResolvedBuffer(
            RESOLVED, "", _template(pool, {}, apart=True), demand.floor_nodes
        )
    if demand.floor_spare:
        parts = _parts(demand.floor_spare)
        requests = {name: format_quantity(name, -(-units // parts)) for name, units in demand.floor_spare.items()}
        result[f"{NAMESPACE}/{pool.metadata.name}-spare"] = ResolvedBuffer(
            RESOLVED, "", _template(pool, requests, apart=False), parts
        )
    return result


def _parts(spare: Mapping[str, int]) -> int:
    parts = max((-(-units // _PART[name]) for name, units in spare.items() if name in _PART), default=1)
    whole_things = [units for name, units in spare.items() if name not in _PART and units > 0]
    return max(1, min(parts, MAX_PARTS, *whole_things))


def _template(pool: NodePool, requests: Mapping[str, str], *, apart: bool) -> dict[str, Any]:
    """Return the pod template of a floor, which only nodes of the NodePool can have."""
    mark = {_FLOOR: pool.metadata.name}
    taints = pool.spec.template.spec.taints
    spec: dict[str, Any] = {
        "nodeSelector": {labels.NODEPOOL: pool.metadata.name},
        "tolerations": [{"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in taints],
        "containers": [{"name": "floor", "resources": {"requests": dict(requests)}}],
    }
    if apart:
        term = {"labelSelector": {"matchLabels": mark}, "topologyKey": labels.HOSTNAME}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"metadata": {"labels": mark}, "spec": spec}
