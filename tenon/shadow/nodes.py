"""Nodes of the model cluster."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import digest_of, ec2nodeclass_hash, nodepool_hash
from tenon.apis.nodepool import NodePool
from tenon.disruption.history.arrivals import Arrival
from tenon.kube.pod import Pod
from tenon.resources import fits, subtract
from tenon.scheduling.after_plan import new_node
from tenon.scheduling.model import Node, PlannedClaim, Pool

OfferingPrices = Mapping[tuple[str, str, str], float]
"""Dollars an hour by instance type, zone and capacity type."""


@dataclass(slots=True)
class ModelNode:
    """A node that Tenon would have. All times are in seconds since the epoch."""

    name: str
    pool: str
    base: Node
    """The node without the pods of the model. What it uses are DaemonSets."""
    created: float
    ready: float
    """When it is initialized."""
    version: str
    """What its NodePool and its class said when it was bought (`version_of`)."""
    quiet: float
    """When a pod last came or went."""
    expires: float | None = None
    claim: str = ""
    """The NodeClaim of the cluster that it was when the model began; empty if the model bought it."""
    created_for: str = ""
    """The reason of the command that it was bought for; empty if it was bought for waiting pods."""
    leaves: float | None = None
    """When it is gone; None if it stays."""
    awaits_pods_until: float = 0.0
    """Until when pods of a command are on their way to it."""
    arrivals: tuple[Arrival, ...] = ()
    """Which pods commands moved to it."""
    pods: dict[str, Pod] = field(default_factory=dict)
    """By UID, the pods of the model that are on it."""
    _view: Node | None = None

    @property
    def offering(self) -> tuple[str, str, str]:
        """The instance type, the zone and the capacity type."""
        of = self.base.labels
        return of.get(labels.INSTANCE_TYPE, ""), of.get(labels.ZONE, ""), of.get(labels.CAPACITY_TYPE, "")

    @property
    def stays(self) -> bool:
        """Whether it is not leaving."""
        return self.leaves is None

    def price(self, prices: OfferingPrices) -> float:
        """Return its price in dollars an hour; 0 if it is unknown."""
        return prices.get(self.offering, 0.0)

    def has_room(self, pod: Pod, now: float) -> bool:
        """Return whether a pod's requests fit."""
        view = self.seen_by_engine(now)
        return fits(pod.requests, subtract(view.allocatable, view.used))

    def put(self, pod: Pod, now: float) -> None:
        """Put a pod on the node."""
        self.pods[pod.uid] = pod
        self.quiet, self._view = now, None

    def drop(self, uid: str, now: float) -> None:
        """Take a pod off the node."""
        del self.pods[uid]
        self.quiet, self._view = now, None

    def update(self, pod: Pod) -> None:
        """Note another version of a pod that is on the node."""
        if self.pods[pod.uid] != pod:
            self.pods[pod.uid] = pod
            self._view = None

    def seen_by_engine(self, now: float) -> Node:
        """Return the node with its pods, as the engine takes it."""
        initialized, closed = now >= self.ready, not self.stays
        view = self._view
        if view is None or view.initialized != initialized or view.closed != closed:
            base = replace(self.base, initialized=initialized, closed=closed)
            view = self._view = base.with_pods(tuple(self.pods.values()))
        return view


def version_of(pool: NodePool, node_class: EC2NodeClass | None) -> str:
    """Return a digest that changes when new nodes of the NodePool would differ, so that the others are drifted."""
    images = sorted(image.id for image in node_class.status.amis) if node_class is not None else []
    class_hash = ec2nodeclass_hash(node_class) if node_class is not None else ""
    return digest_of({"pool": nodepool_hash(pool), "class": class_hash, "images": images})


def bought_node(name: str, claim: PlannedClaim, pool: Pool, now: float, boot: float) -> ModelNode:
    """Return the node of a planned NodeClaim, launched as its cheapest type, without its pods.

    ``boot``: seconds until it is ready.
    """
    node = new_node(name, claim, pool)
    base = node.without_pods(frozenset(pod.uid for pod in claim.pods))
    return ModelNode(name, pool.name, base, created=now, ready=now + boot, version="", quiet=now + boot)


def without_pods_of_model(node: Node, uids: Set[str]) -> Node:
    """Return a real node as the base of one of the model: open, and without the pods that the model puts on it."""
    return replace(node.without_pods(uids), closed=False, requirements=None)
