"""The model cluster: what the cluster would be if Tenon alone had decided since the model began.

Every pod of the cluster is in it exactly once: on one of the model's nodes, waiting, or outside of NodePools. It
changes only by `feeding` (what users and EC2 do), `purchases` and `disruptions` (what Tenon does).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from tenon.disruption.search.pods_elsewhere import PodsElsewhere
from tenon.resources import NODES, Resources, add
from tenon.shadow.nodes import ModelNode, OfferingPrices
from tenon.shadow.pods import OUTSIDE, WAITS, LivePod, ModelPod
from tenon.shadow.waiting_commands import WaitingCommand


@dataclass(slots=True)
class Disturbance:
    """What was done to running pods and nodes, as counts since the model began."""

    pods_moved: int = 0
    nodes_removed: int = 0
    by_reason: dict[str, int] = field(default_factory=dict)
    """Nodes removed, by reason."""

    def note(self, reason: str, pods: int) -> None:
        """Count a node that was removed with this many pods on it."""
        self.pods_moved += pods
        self.nodes_removed += 1
        self.by_reason[reason] = self.by_reason.get(reason, 0) + 1


@dataclass(slots=True)
class ModelCluster:
    """Nodes and pods by name and UID. Use it in one thread at a time."""

    nodes: dict[str, ModelNode] = field(default_factory=dict)
    pods: dict[str, ModelPod] = field(default_factory=dict)
    bought: int = 0
    """How many nodes it has bought; their names count on."""
    disturbance: Disturbance = field(default_factory=Disturbance)
    unplaced: dict[str, str] = field(default_factory=dict)
    """By UID of a pod that the last plan could not place, why."""
    planned_at: float = 0.0
    """When it last planned."""
    reserved_until: dict[str, float] = field(default_factory=dict)
    """By UID of a pod that is gone, until when its place stays free for its successor."""
    commands: list[WaitingCommand] = field(default_factory=list)
    """Disruption commands that wait for their validation. A restart forgets them, and they are decided again."""
    pods_elsewhere: PodsElsewhere = field(default_factory=PodsElsewhere)
    """Which pods kube-scheduler put elsewhere than a command planned. A restart forgets some of them."""
    _waiting: set[str] = field(default_factory=set)

    def add_pod(self, live: LivePod, now: float) -> None:
        """Add a pod that waits."""
        self.pods[live.uid] = ModelPod(live, since=now)
        self._waiting.add(live.uid)

    def place(self, uid: str, node: str, now: float) -> None:
        """Move a pod to a node, to `WAITS` or to `OUTSIDE`."""
        pod = self.pods[uid]
        before = self.nodes.get(pod.node)
        if before is not None:
            before.drop(uid, now)
        pod.node, pod.since = node, now
        if node not in (WAITS, OUTSIDE):
            self.nodes[node].put(pod.live.pod, now)
        if node == WAITS:
            self._waiting.add(uid)
        else:
            self._waiting.discard(uid)
            self.unplaced.pop(uid, None)

    def remove_pod(self, uid: str, now: float) -> None:
        """Forget a pod."""
        pod = self.pods.pop(uid)
        self.unplaced.pop(uid, None)
        self.reserved_until.pop(uid, None)
        self._waiting.discard(uid)
        if (node := self.nodes.get(pod.node)) is not None:
            node.drop(uid, now)

    def add_node(self, node: ModelNode) -> None:
        """Add a node."""
        self.nodes[node.name] = node

    def new_name(self) -> str:
        """Return a name for a node that is bought."""
        self.bought += 1
        return f"shadow-{self.bought}"

    def waiting(self) -> Iterator[ModelPod]:
        """Yield the pods that wait for a node. Those that are being deleted need none."""
        pods = (self.pods[uid] for uid in self._waiting if uid not in self.reserved_until)
        return (pod for pod in pods if not pod.live.ends)

    def leave(self, name: str, at: float, now: float, reason: str) -> None:
        """Let a node leave, until when it costs. Its pods wait for another node."""
        node = self.nodes[name]
        if not node.stays:
            return
        node.leaves = at
        self.disturbance.note(reason, len(node.pods))
        for uid in list(node.pods):
            self.place(uid, WAITS, now)

    def remove_left_nodes(self, now: float) -> None:
        """Remove the nodes whose time to leave has come."""
        for name in [name for name, node in self.nodes.items() if node.leaves is not None and node.leaves <= now]:
            del self.nodes[name]

    def price(self, prices: OfferingPrices) -> float:
        """Return what all nodes cost, in dollars an hour."""
        return sum(node.price(prices) for node in self.nodes.values())

    def pool_usage(self, pool: str) -> Resources:
        """Return what the nodes of a NodePool use of its limits."""
        used = [node.base.limited for node in self.nodes.values() if node.pool == pool]
        return add(*used, {NODES: len(used)})

    def faults(self) -> list[str]:
        """Return what contradicts that each pod is in one place, in sentences. A test and a restart ask."""
        faults = []
        places: dict[str, str] = {}
        for name, node in self.nodes.items():
            for uid in node.pods:
                if uid in places:
                    faults.append(f"pod {uid} is on {places[uid]} and on {name}")
                places[uid] = name
        for uid, pod in self.pods.items():
            expected = None if pod.node in (WAITS, OUTSIDE) else pod.node
            if (uid in self._waiting) != (pod.node == WAITS):
                faults.append(f"pod {uid} on {pod.node!r} counts wrongly as waiting or as placed")
            if places.pop(uid, None) != expected:
                faults.append(f"pod {uid} should be on {expected}")
        return [*faults, *(f"pod {uid} on {name} does not exist" for uid, name in places.items())]


def begun(
    nodes: Collection[ModelNode], pods: Collection[LivePod], node_of: Mapping[str, str], now: float
) -> ModelCluster:
    """Return the model as it begins: a copy of the cluster.

    ``node_of``: by UID, the model's node of a pod. The other pods wait, or are outside.
    """
    cluster = ModelCluster({node.name: node for node in nodes})
    quiet = {node.name: node.quiet for node in nodes}
    for live in pods:
        if live.ends:
            continue
        cluster.add_pod(live, now)
        name = node_of.get(live.uid, "")
        if live.outside:
            cluster.place(live.uid, OUTSIDE, now)
        elif name in cluster.nodes:
            cluster.place(live.uid, name, now)
    for name, since in quiet.items():
        cluster.nodes[name].quiet = since
    return cluster
