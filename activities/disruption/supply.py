"""What NodePools can buy for nodes that leave: as usual, and in the version that a rollout gives to its wave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from activities.cluster_view.interfaces import ClusterView, Types
from activities.provisioning.launch_refusals import LaunchRefusals
from activities.provisioning.offerings import instance_types_by_pool
from tenon.apis.nodepool import NodePool
from tenon.apis.reasons import Reason
from tenon.disruption.decision import Command
from tenon.ec2.refusals.unavailable import UnavailableOfferings
from tenon.kube.offerings import OfferingKey
from tenon.provisioning.overlays import Overlaid
from tenon.provisioning.readiness import usable_pools
from tenon.provisioning.static_capacity import usable_static_pools
from tenon.scheduling.model import PlannedClaim


class Supply:
    """What the NodePools can buy: as usual, and in the version that a rollout gives to the nodes of its wave."""

    def __init__(self, usual: Overlaid, waves: Overlaid, next_attempts: Mapping[OfferingKey, datetime]) -> None:
        """``next_attempts``: the offerings that both leave out, and when Tenon asks EC2 for each again."""
        self.usual = usual
        self.waves = waves
        self.next_attempts = next_attempts
        self._usual_pools = {pool.metadata.name: pool for pool, _ in usual.pools_with_types}
        self._wave_pools = {pool.metadata.name: pool for pool, _ in waves.pools_with_types}

    def of(self, command: Command, planned: PlannedClaim) -> tuple[NodePool, Overlaid]:
        """The NodePool of a replacement, in the version that it gets, and the overlays of that."""
        is_of_rollout = command.reason is Reason.DRIFTED and planned.pool == command.candidates[0].node.pool
        if is_of_rollout and planned.pool in self._wave_pools:
            return self._wave_pools[planned.pool], self.waves
        return self._usual_pools[planned.pool], self.usual


class SupplyReader:
    """Asks for the instance types of the NodePools that can launch nodes, without what EC2 refuses."""

    def __init__(self, view: ClusterView, types: Types, refusals: LaunchRefusals) -> None:
        self._view = view
        self._types = types
        self._refusals = refusals

    async def read(self) -> Supply:
        """What the NodePools can buy now."""
        # One reading for all that the decision is about: EC2 may take seconds to say the types.
        next_attempts = self._refusals.next_attempts()
        pools, wave_pools = self._view.node_pools(), self._view.wave_pools()
        unavailable = UnavailableOfferings(next_attempts)
        usual = await self._types_of(pools, unavailable)
        waves = await self._types_of(wave_pools, unavailable) if wave_pools else Overlaid([], {})
        return Supply(usual, waves, next_attempts)

    async def usual(self) -> Overlaid:
        """What the NodePools can buy, in the version that ordinary launches have."""
        return await self._types_of(self._view.node_pools(), self._refusals.unavailable())

    async def _types_of(self, pools: Sequence[NodePool], unavailable: UnavailableOfferings) -> Overlaid:
        find_class = self._view.node_class
        usable = [*usable_pools(pools, find_class, self._view), *usable_static_pools(pools, find_class, self._view)]
        return await instance_types_by_pool(self._view, self._types, usable, unavailable)
