"""What planning needs of the cluster: the cache of the worker gives it, tests give it from memory."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Protocol

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.disruption.model import ManagedNode
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.provisioning.planning_context import ClaimFacts, Fingerprint
from tenon.provisioning.problem import Cluster
from tenon.scheduling.model import InstanceType


class ClusterView(Cluster, Protocol):
    """A live, read-only picture of the cluster: what a plan needs of it, and what the planner must know beside."""

    def synced(self) -> bool:
        """Whether the picture is whole."""
        ...

    def fingerprint(self) -> Fingerprint:
        """Of the pools, classes, claims and overlays, and of the namespaces."""
        ...

    def snapshot(self) -> Cluster:
        """The cluster as it is now, for another thread."""
        ...

    def overlays(self) -> Sequence[NodeOverlay]:
        """The NodeOverlays that hold: valid, not being deleted; none while their gate is off."""
        ...

    def pending_pods(self) -> Sequence[Pod]:
        """Pods that kube-scheduler could not place and that Tenon may serve, and pods whose node is on its way out."""
        ...

    def claim_names(self) -> Set[str]:
        """The names of all NodeClaims."""
        ...

    def launching_pools(self) -> Set[str]:
        """The NodePools with a NodeClaim that waits for its instance."""
        ...

    def claims_for(self, pod: Pod) -> Sequence[ClaimFacts]:
        """The NodeClaims that were bought for a pod, without those that it passed over for a node elsewhere."""
        ...

    def place_of(self, name: str) -> str:
        """The name under which ``nodes`` lists what was a Node or NodeClaim of this name when a plan was made: a claim
        goes by its Node's name once it has one. Empty when it is gone, or on its way out.
        """
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
        """Return on the next change that may bear on which pods want a decision, at the latest after ``seconds``."""
        ...

    async def nodes_changed(self, seconds: float) -> None:
        """Return on the next change that may bear on `managed_nodes`, at the latest after ``seconds``."""
        ...


class Types(Protocol):
    """The instance types of a node class."""

    def instance_types(
        self, node_class: EC2NodeClass, unavailable: frozenset[OfferingKey], *, unpriced: bool = False
    ) -> Sequence[InstanceType]:
        """Types with their offerings; ``unavailable`` holds those that EC2 refused. Blocking.

        ``unpriced``: types whose price nobody knows are among them, at a price without end.
        """
        ...
