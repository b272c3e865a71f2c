"""Everything that a disruption decision depends on: one argument, which a replay can keep and give again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from tenon.apis.reasons import Reason
from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.repair.pool_policies import PoolRepair
from tenon.rollout.versions import PoolRollout

if TYPE_CHECKING:  # plans for pending pods use some of this, and no message
    from tenon.messages.disruption import PassCursor


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """A command that waits for a person, or that one refused, as it concerns one of its nodes."""

    command: str
    """Its ID; empty while it has none, in the decision that proposes it."""
    reason: Reason
    pool: str
    since: datetime
    refused: str = ""
    """Why the node is left alone, in a clause; empty while the command waits."""
    until: datetime | None = None
    """When it is not left alone any more."""
    hosts: tuple[str, ...] = ()
    """The Nodes and NodeClaims that the command moves pods to. Only the entry of its first node has them."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything that disruption decisions depend on."""

    nodes: Sequence[ManagedNode]
    policies: Mapping[str, PoolPolicy]
    now: datetime
    under_command: frozenset[str] = frozenset()
    """NodeClaims that an open command removes."""
    postponed: frozenset[str] = frozenset()
    """NodeClaims that a command could not remove and that are left alone for a while. Budgets do not count them."""
    approvals: Mapping[str, AskedApproval] = field(default_factory=dict)
    """By NodeClaim whose command waits for a person, or was refused. Budgets do not count them."""
    awaiting_replacement: Mapping[str, str] = field(default_factory=dict)
    """NodeClaims that leave, or are gone, before their replacement runs, with their NodePool. Budgets count them."""
    nominated: frozenset[str] = frozenset()
    """Nodes and NodeClaims that pending pods are expected to run on (DIS-10)."""
    buffer_hosts: frozenset[str] = frozenset()
    """Nodes and NodeClaims on which CapacityBuffers reserve capacity."""
    model: ClusterModel | None = None
    """Only set for methods that move pods."""
    slowed: Mapping[str, str] = field(default_factory=dict)
    """By NodePool whose last consolidation commands saved less than predicted: why it must wait now, or an empty text
    if it may start one command."""
    cursor: PassCursor | None = None
    """Which nodes consolidation looks at next, if there are too many for one pass; None to look at all of them."""
    blocked_at: Mapping[str, datetime] = field(default_factory=dict)
    """By NodeClaim, when a method last found that it cannot leave. Others come first, so that it holds up none."""
    destinations: frozenset[str] = frozenset()
    """Nodes and NodeClaims that commands which have just been decided move pods to."""
    quiet_since: Mapping[str, datetime] | None = None
    """By NodeClaim, the last pod event, or the initialization if that is later. Stands in for that of the model."""
    repair: PoolRepair | None = None
    """What node repair does; None without the feature gate NodeRepair."""
    rollouts: Mapping[str, PoolRollout] = field(default_factory=dict)
    """By name, what holds for each NodePool that a NodeRollout selects."""

    def rollout_replaces(self, node: ManagedNode) -> PoolRollout | None:
        """Return the rollout that may replace the node now; None if none may."""
        rollout = self.rollouts.get(node.pool)
        return rollout if rollout is not None and rollout.may_replace(node.claim) else None

    @property
    def knows_pod_events(self) -> bool:
        """Whether it says of nodes with pods when a pod last came or went."""
        return self.model is not None or self.quiet_since is not None

    def detail_of(self, node: ManagedNode) -> NodeDetail | None:
        """Return what the model knows of a node."""
        return self.model.details.get(node.claim) if self.model is not None else None

    def quiet_since_of(self, node: ManagedNode) -> datetime | None:
        """Return since when the pods of a node have not changed; None if that is not known."""
        if (detail := self.detail_of(node)) is not None:
            return detail.quiet_since or node.quiet_since
        return node.quiet_since if self.quiet_since is None else self.quiet_since.get(node.claim)
