"""The interfaces that planning needs. The worker's cluster cache implements `ClusterView`; tests fake it in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.nodeoverlay import NodeOverlay
from tenon.apis.nodepool import NodePool
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.offerings import OfferingKey
from tenon.kube.pod import Pod
from tenon.provisioning.problem import PlannedCluster
from tenon.provisioning.readiness import Checks
from tenon.resources import Resources
from tenon.rollout.versions import PoolRollout
from tenon.scheduling.model import InstanceType

if TYPE_CHECKING:
    from tenon.disruption.nodes import ManagedNode, NodeDetail


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Values that change when a pod that did not fit anywhere might fit now."""

    supply: object
    """Covers existing capacity and what can be bought."""
    namespaces: object
    """Covers the labels of namespaces, which matter for pods with a namespaceSelector."""


class DisruptionCluster(PlannedCluster, Protocol):
    """A snapshot of the cluster from which disruption builds its model."""

    def node_details(self, types: Mapping[str, Sequence[InstanceType]]) -> Mapping[str, NodeDetail]:
        """The details of all nodes of NodePools, by NodeClaim. ``types``: by NodePool, for the prices."""
        ...


class ClusterView(PlannedCluster, Checks, Protocol):
    """A live, read-only view of the cluster: what a plan needs, and what else the planner needs."""

    def synced(self) -> bool:
        """Whether the view is complete."""
        ...

    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the pools, classes, claims, overlays and namespaces."""
        ...

    def snapshot(self) -> DisruptionCluster:
        """The current state of the cluster, for use in another thread."""
        ...

    def rollouts(self) -> Mapping[str, PoolRollout]:
        """By name, what holds for each NodePool that a NodeRollout selects."""
        ...

    def wave_pools(self) -> Sequence[NodePool]:
        """The NodePools of which a rollout replaces nodes now, in the version that these nodes get."""
        ...

    def overlays(self) -> Sequence[NodeOverlay]:
        """The NodeOverlays that apply: valid and not being deleted. Empty while the feature gate is off."""
        ...

    def pending_pods(self) -> Sequence[Pod]:
        """Pods that kube-scheduler could not place and that Tenon may serve, and pods whose node is leaving."""
        ...

    def claim_names(self) -> Set[str]:
        """The names of all NodeClaims."""
        ...

    def launching_pools(self) -> Set[str]:
        """The NodePools with a NodeClaim that has no instance yet."""
        ...

    def launching_claims(self) -> Sequence[ClaimRecord]:
        """The NodeClaims that were planned for pods, have no instance yet, and stay."""
        ...

    def all_claims(self) -> Iterable[ClaimRecord]:
        """All NodeClaims, also those that are being deleted."""
        ...

    def reserved_claims(self) -> Sequence[ClaimRecord]:
        """The NodeClaims that name a capacity reservation in their labels."""
        ...

    def warm_nodes(self) -> Mapping[str, str]:
        """The state of each warm node that stays and has a Node, by the Node's name."""
        ...

    def warm_claim(self, node_name: str) -> ClaimRecord | None:
        """The NodeClaim of a warm node; None if it is gone or leaves."""
        ...

    def claims_for(self, pod: Pod) -> Sequence[ClaimRecord]:
        """The NodeClaims that were created for a pod and stay, except those it did not use: it got another node."""
        ...

    def is_unused(self, claim: ClaimRecord, pod: Pod) -> bool:
        """Whether a waiting pod could have had the ready node that was bought for it.

        That is so if no planned pod of the node and no pod like this one got the node, and no other pods took the room.
        """
        ...

    def undeclared_taint(self, claim: ClaimRecord, pod: Pod) -> str:
        """The key of a taint on the claim's Node that the claim does not declare and the pod does not tolerate.

        Empty if there is none. Taints by which Kubernetes reports a node's state do not count.
        """
        ...

    def place_of(self, name: str) -> str:
        """The current name in ``nodes`` of a Node or NodeClaim that had this name when a plan was made.

        A NodeClaim takes its Node's name when it gets a Node. Empty if it is gone or leaving.
        """
        ...

    def newest_batch(self, up_to: int) -> int:
        """The highest batch number on a NodeClaim that is not above ``up_to``; 0 if there is none."""
        ...

    async def catch_up(self, claims: Collection[str]) -> None:
        """Return when the view contains these NodeClaims, or is newer than this call, so that missing ones are gone.

        Raises:
            TimeoutError: the API server could not be read.
        """
        ...

    async def confirm_pods(self) -> bool:
        """Make sure that the view of the pods is only seconds old. Return whether they had to be read again.

        Raises:
            TimeoutError: the API server could not be read.
        """
        ...

    def managed_nodes(self) -> Sequence[ManagedNode]:
        """The nodes that disruption may consider."""
        ...

    def nodes_without_pool(self) -> Sequence[ManagedNode]:
        """The nodes whose NodeClaim belongs to no NodePool. No method takes them."""
        ...

    def node_uid(self, name: str) -> str:
        """The UID of a Node; empty if there is none of this name."""
        ...

    def quiet_since(self) -> Mapping[str, datetime]:
        """When the last pod came to each initialized node or left it, or when it was initialized, by NodeClaim."""
        ...

    def evictions_allowed(self) -> int:
        """How often a PodDisruptionBudget may have begun to allow evictions."""
        ...

    def pods_released(self) -> Mapping[str, int]:
        """How often a pod with do-not-disrupt ended, went away or lost the annotation, by NodeClaim."""
        ...

    def requests_on_nodes(self) -> Mapping[str, Resources]:
        """What the pods of each node request, by NodeClaim."""
        ...

    async def changed(self, seconds: float) -> None:
        """Return on the next change that may affect which pods need a decision, at the latest after ``seconds``."""
        ...

    async def nodes_changed(self, seconds: float) -> None:
        """Return on the next change that may affect `managed_nodes`, at the latest after ``seconds``."""
        ...


class Types(Protocol):
    """The instance types of a node class."""

    def instance_types(
        self,
        node_class: EC2NodeClass,
        unavailable: frozenset[OfferingKey],
        *,
        unpriced: bool = False,
        dedicated: bool = False,
    ) -> Sequence[InstanceType]:
        """Instance types with their offerings; ``unavailable`` holds the offerings that EC2 refused. Blocking.

        ``unpriced``: include types without a known price, at an infinite price. ``dedicated``: at the prices of
        dedicated instances.
        """
        ...
