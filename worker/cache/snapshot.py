"""The cluster as it was at one moment, for a thread that states a scheduling problem.

Of thousands of nodes that takes seconds, and the event loop, which renews the Lease, must not wait for it. To take the
snapshot costs the loop milliseconds: tables and indexes are copied, records are immutable and shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.kube.pod import Pod
from tenon.resources import Resources
from tenon.scheduling.model import Node
from worker.cache import capacity
from worker.cache.state import ClusterState
from worker.cache.usage import pool_usages


class Snapshot:
    """What `tenon.provisioning.problem.Cluster` asks for. Use it in one thread at a time."""

    def __init__(
        self, state: ClusterState, now: float, pools: Sequence[NodePool], classes: Mapping[str, EC2NodeClass]
    ) -> None:
        """Takes it from ``state``, in the thread that changes that."""
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
        """An EC2NodeClass that can be read."""
        return self._classes.get(name)

    def pool_usage(self, pool: str) -> Resources:
        """What a pool's nodes and claims take of its limits at most, those on their way out included: they still cost.

        Limits hold over batches: EC2 may take its time, and only then is it known which type a claim became.
        """
        if self._usages is None:
            self._usages = pool_usages(self._state, with_leaving=True, at_most=True)
        return self._usages.get(pool, {})
