"""A node as disruption sees it: what every method needs to know of it, and what only those that move pods do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tenon.disruption.history.arrivals import Arrival
from tenon.kube.pod import Pod
from tenon.kube.records import NodeCondition


@dataclass(frozen=True, slots=True)
class ManagedNode:
    """A NodeClaim with its Node as disruption sees them, so that methods need neither the cache nor JSON.

    It only says whether there are pods: ``empty`` is true if no pod on the node would need another node, and none is on
    its way. ``quiet_since`` is set only for empty nodes: the last pod event, or the initialization if that is later.
    ``protected_by`` covers annotations of Node and NodeClaim; ``held_by`` covers pods, but only those of empty nodes.
    """

    claim: str
    uid: str
    pool: str
    initialized: bool
    ready: bool
    leaving: bool
    empty: bool
    quiet_since: datetime | None
    node: str = ""
    """The name of its Node."""
    terminating: bool = False
    """EC2 has accepted the termination of its instance. Budgets no longer count the node (DIS-50)."""
    protected_by: str = ""
    """The annotation that protects it, as `tenon.kube.protection.node_protection` says it."""
    protected_until: datetime | None = None
    """When that ends; None if time alone does not end it."""
    held_by: str = ""
    """The DaemonSet or static pod of an empty node, and what protects it, that keeps graceful methods away (DIS-13)."""
    held_until: datetime | None = None
    """When that ends; None if time alone does not end it."""
    drifted: bool = False
    """Its NodeClaim has the condition Drifted."""
    disrupted_by: str = ""
    """The ID of the open command that prepares to remove it."""
    replacement_for: str = ""
    """The ID of the open command that it was created for."""
    created_for: str = ""
    """The reason of the command that it was created for, which may have ended long ago."""
    arrivals: tuple[Arrival, ...] = ()
    """Which pods commands moved to it in the last day."""
    bought_in_shortage: bool = False
    """It cost far more than what EC2 refused at the time, so it is to be replaced soon and takes no pods."""
    usual_price: float = 0.0
    """What EC2 refused at the time, in dollars an hour; 0 if unknown."""
    expires_at: datetime | None = None
    """When it expires, or the end of an operator's keep request if that is later; None if never."""

    registered: bool = True
    """Its Node has joined. It may not be initialized yet."""
    unhealthy: tuple[NodeCondition, ...] = ()
    """The conditions of its Node that may be faults. Most nodes have none."""
    node_created_at: datetime | None = None
    """When its Node was created."""
    repair_veto: str = ""
    """The kind of the object, Node or NodeClaim, with the annotation that keeps repair away."""
    rebooting: bool = False
    """Its machine reboots, so no method takes it."""
    reboots: tuple[datetime, ...] = ()
    """When reboots of it were committed in the last day."""
    rebooted_at: datetime | None = None
    """When its last reboot ended."""
    cpu: int = 0
    """The allocatable CPU of its Node in millicores; 0 if it has no Node."""
    warm: bool = False
    """It is a warm node: stopped, or about to be, or starting for its first pods. It counts as ready."""

    def named_in(self, names: frozenset[str]) -> bool:
        """True if the names contain its NodeClaim or its Node."""
        return self.claim in names or self.node in names


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """What a method that moves pods needs to know of a node, in addition to `ManagedNode`."""

    node: str
    """The name of the Node; empty if the instance has none yet."""
    instance_type: str
    zone: str
    capacity_type: str
    price: float
    """Dollars an hour of its own offering; 0 if unknown (DIS-25)."""
    pods: tuple[Pod, ...]
    """The pods that need another node if this one leaves."""
    cost: float
    """The cost of moving its pods (`rescheduling_cost`)."""
    surges: tuple[str, ...] = ()
    """Deployments (``namespace/name``) with a pod on it that asks to start its new pod first."""
    held_by: str = ""
    """The pod, and what protects it, that keeps graceful methods away from the node (DIS-13); empty if none does."""
    held_until: datetime | None = None
    """When the protection of all its pods ends; None if time alone does not end it."""
    has_grace_period: bool = False
    """Its NodeClaim has a terminationGracePeriod, so pods that are protected do not keep drift away (DIS-14)."""
    drifted: str = ""
    """The reason of its NodeClaim's condition Drifted; empty while it is not True."""
    drift_message: str = ""
    """The message of that condition: which field or value made it drift."""
    drifted_since: datetime | None = None
    quiet_since: datetime | None = None
    """The last pod event, or the initialization if that is later. consolidateAfter counts from it (DIS-30)."""
    created_at: datetime | None = None
