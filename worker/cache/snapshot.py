"""The cluster at one moment, for a thread that builds a scheduling problem.

With thousands of nodes that takes seconds, and the event loop, which renews the Lease, must not wait for it. Taking the
snapshot blocks the loop for milliseconds: tables and indexes are copied, records are immutable and shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.disruption.nodes import NodeDetail
from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord
from tenon.provisioning.cost_limits import BoughtOffering
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType, Node
from worker.cache import capacity
from worker.cache.node_details import node_details
from worker.cache.purchases import purchases
from worker.cache.state import ClusterState
from worker.cache.usage import pool_usages


class Snapshot:
    """Implements `activities.cluster_view.interfaces.DisruptionCluster`. Use it in one thread at a time."""

    def __init__(
        self, state: ClusterState, now: float, pools: Sequence[NodePool], classes: Mapping[str, EC2NodeClass]
    ) -> None:
        """Copy ``state``. Call this in the thread that changes ``state``."""
        self._state = ClusterState(lambda: now)
        self._state.adopt(state)
        self._now = now
        self._pools = pools
        self._classes = classes
        self._usages: dict[str, Resources] | None = None

    def nodes(self) -> list[Node]:
        """Existing and in-flight capacity."""
        return capacity.scheduling_nodes(self._state, self._now)

    def daemons(self) -> list[Pod]:
        """One template pod for each DaemonSet."""
        return capacity.daemon_pods(self._state)

    def namespaces(self) -> Mapping[str, Mapping[str, str]]:
        """The labels of every namespace."""
        return {record.key: record.value for record in self._state.namespaces}

    def node_pools(self) -> Sequence[NodePool]:
        """The NodePools that can be read."""
        return self._pools

    def node_class(self, name: str) -> EC2NodeClass | None:
        """The EC2NodeClass of this name. None if it does not exist or cannot be read."""
        return self._classes.get(name)

    def pool_usage(self, pool: str) -> Resources:
        """The most that a pool's nodes and claims may use of its limits. Nodes that are leaving count, because they
        still cost.

        Claims without an instance count with their largest type, so that limits hold across batches: which type a claim
        becomes is known only after the launch, which may take time.
        """
        if self._usages is None:
            self._usages = pool_usages(self._state, with_leaving=True, at_most=True)
        return self._usages.get(pool, {})

    def purchases(self) -> list[BoughtOffering]:
        """What the nodes and claims of all NodePools were bought as. Those that are leaving still cost."""
        return purchases(self._state)

    def pods_by_claim(self) -> dict[str, list[PodRecord]]:
        """The pods on the node of each NodeClaim, sorted by key."""
        nodes = ((claim.name, self._state.node_of(claim)) for claim in self._state.claims)
        return {claim: self._state.pods_on(node.name) for claim, node in nodes if node is not None}

    def node_details(self, types: Mapping[str, Sequence[InstanceType]]) -> dict[str, NodeDetail]:
        """What disruption methods that move pods need to know of each node, by NodeClaim."""
        return node_details(self._state, self._now, types)
