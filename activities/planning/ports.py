"""What planning needs of the cluster: the cache of the worker gives it, tests give it from memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodepool import NodePool
from tenon.disruption.emptiness import ManagedNode
from tenon.provisioning.facts import ClaimFacts
from tenon.resources import Resources
from tenon.scheduling.model import InstanceType, Node, Pod


class ClusterView(Protocol):
    """A live, read-only picture of the cluster."""

    def synced(self) -> bool:
        """Whether the picture is whole."""
        ...

    def fingerprint(self) -> object:
        """Changes whenever a pod that fitted nowhere might fit now: pools, classes, claims."""
        ...

    def pending_pods(self) -> Sequence[Pod]:
        """Pods that kube-scheduler could not place and that Tenon may serve."""
        ...

    def nodes(self) -> Sequence[Node]:
        """Existing and in-flight capacity."""
        ...

    def daemons(self) -> Sequence[Pod]:
        """One template pod for each DaemonSet."""
        ...

    def node_pools(self) -> Sequence[NodePool]:
        """The NodePools that can be read."""
        ...

    def node_class(self, name: str) -> EC2NodeClass | None:
        """An EC2NodeClass that can be read."""
        ...

    def pool_usage(self, pool: str) -> Resources:
        """What a pool's nodes and claims take of its limits, ``nodes`` included."""
        ...

    def claims(self) -> Sequence[ClaimFacts]:
        """All NodeClaims."""
        ...

    def newest_batch(self, up_to: int) -> int:
        """The highest batch number on a NodeClaim, not above ``up_to``; 0 when there is none."""
        ...

    async def catch_up(self, claims: Collection[str]) -> None:
        """Return when the picture holds these NodeClaims, or is newer than this call, so that the missing are gone.

        Raises:
            TimeoutError: the API server could not be read.
        """
        ...

    async def confirm_pods(self) -> bool:
        """Make sure that the pods are as of the last seconds; whether they had to be read anew for it.

        Raises:
            TimeoutError: the API server could not be read.
        """
        ...

    def managed_nodes(self) -> Sequence[ManagedNode]:
        """The nodes that disruption may consider."""
        ...

    async def changed(self, seconds: float) -> None:
        """Return on the next change of anything above, at the latest after ``seconds``."""
        ...


class Types(Protocol):
    """The instance types of a node class."""

    def instance_types(
        self, node_class: EC2NodeClass, unavailable: frozenset[tuple[str, str, str]]
    ) -> Sequence[InstanceType]:
        """Types with their offerings; ``unavailable`` holds (capacity type, instance type, zone). Blocking."""
        ...
