"""Why a version of a NodePool can launch no node at all.

No plan buys a node of such a version, so EC2 never refuses one, and nothing else would fail its wave.
"""

from __future__ import annotations

from typing import Protocol

from activities.cluster_view.interfaces import ClusterView, Types
from activities.ec2.errors import EC2Error
from activities.provisioning.offerings import instance_types_by_pool
from tenon.apis.nodepool import NodePool
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import scheduling_pools
from tenon.provisioning.readiness import why_class_unready


class LaunchableTypes(Protocol):
    """Says why a version of a NodePool can launch no node."""

    async def why_none(self, pool: NodePool) -> str:
        """Return why, in a clause; empty if it can. ``pool`` is the NodePool in the version."""
        ...


class VersionTypes:
    """Asks for the instance types of the version. Those that EC2 has no capacity for now count: that passes."""

    def __init__(self, view: ClusterView, types: Types) -> None:
        self._view = view
        self._types = types

    async def why_none(self, pool: NodePool) -> str:
        """Return why, in a clause; empty if it can, and while EC2 or the EC2NodeClass does not tell."""
        if why_class_unready(pool, self._view.node_class, self._view):
            return ""  # the class was ready when the version was recorded, so that passes too
        if faults := self._view.pool_faults(pool):
            return str(faults[0])
        try:
            overlaid = await instance_types_by_pool(self._view, self._types, [pool])
        except EC2Error:
            return ""
        (engine_pool,) = scheduling_pools(self._view, overlaid.pools_with_types, PlanPolicy())
        return engine_pool.why_lacking
