"""The model in a form that a file can keep, so that a restart goes on where it was.

Pods are not kept, because the cluster has them: only which node each is on, and since when it exists in the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tenon.disruption.history.arrivals import Arrival
from tenon.provisioning.problem_json import decode, encode
from tenon.scheduling.model import Node
from tenon.shadow.batches import BatchComparison
from tenon.shadow.cluster import Disturbance, ModelCluster
from tenon.shadow.disruptions import ModelCommand
from tenon.shadow.ledger import Ledger
from tenon.shadow.nodes import ModelNode
from tenon.shadow.pods import OUTSIDE, WAITS, LivePod

VERSION = 2
MOST = 10
"""How many purchases and commands are kept."""

LEAST = 1e-6
"""Dollars an hour from which on two purchases differ."""


class PodPlace(NamedTuple):
    """Where a pod of the model is."""

    node: str
    created: float
    """When the pod was created in the model, in seconds since the epoch: a pod that the model moved is a new one."""


@dataclass(frozen=True, slots=True)
class SavedNode:
    """A `ModelNode` without its pods."""

    name: str
    pool: str
    base: Node
    created: float
    ready: float
    version: str
    quiet: float
    expires: float | None
    claim: str
    created_for: str
    leaves: float | None
    awaits_pods_until: float
    arrivals: tuple[Arrival, ...]


@dataclass(slots=True)
class ShadowTotals:
    """All that is kept besides nodes, places and comparisons. It has a fixed size, but for the samples."""

    version: int
    """`VERSION` of the writer."""
    cluster_uid: str
    """The UID of the namespace kube-system, so that a file is not used for another cluster."""
    bought: int
    ours: Disturbance
    theirs: Disturbance
    ledger: Ledger
    inputs: str = ""
    """What the user gave besides the cluster, as a digest. Sums for other NodePools or settings must not be mixed."""
    batches: int = 0
    """How many purchases were compared."""
    pods_compared: int = 0
    their_dollars_per_hour: float = 0.0
    """The sum of the prices of the other controller's purchases that can be compared."""
    our_dollars_per_hour: float = 0.0
    unlike: int = 0
    """Purchases of which the prices cannot be compared."""
    differing: list[BatchComparison] = field(default_factory=list)
    """The purchases that differ most, the largest difference first."""
    commands: list[ModelCommand] = field(default_factory=list)
    """The disruption commands of the model that save most."""

    def compared(self, comparison: BatchComparison) -> None:
        """Count a purchase that was compared."""
        self.batches += 1
        self.pods_compared += comparison.pods
        if comparison.is_fair:
            self.their_dollars_per_hour += comparison.theirs.price
            self.our_dollars_per_hour += comparison.ours.price
        else:
            self.unlike += 1
        if _weight(comparison) > (0, LEAST) or not comparison.is_fair:
            self.differing = sorted([*self.differing, comparison], key=_weight, reverse=True)[:MOST]

    def carried_out(self, command: ModelCommand) -> None:
        """Remember a command of the model if it is one of those that save most."""
        self.commands = sorted([*self.commands, command], key=lambda command: -command.saving)[:MOST]


def _weight(comparison: BatchComparison) -> tuple[int, float]:
    """Return how much a purchase differs: first those that place other pods, then by price."""
    unplaced = abs(comparison.theirs.unplaced_count - comparison.ours.unplaced_count)
    return unplaced, abs(comparison.difference) if comparison.is_fair else 0.0


def node_text(node: ModelNode) -> bytes:
    """Return a node as JSON."""
    return encode(
        SavedNode(
            node.name,
            node.pool,
            node.base,
            node.created,
            node.ready,
            node.version,
            node.quiet,
            node.expires,
            node.claim,
            node.created_for,
            node.leaves,
            node.awaits_pods_until,
            node.arrivals,
        )
    )


def restored(
    node_texts: Iterable[bytes],
    places: Mapping[str, PodPlace],
    pods: Iterable[LivePod],
    totals: ShadowTotals,
    now: float,
) -> ModelCluster:
    """Return the model as it was, with the pods of now. New pods wait, as if they had just come.

    Raises:
        ValueError: a text is not a node.
    """
    nodes = {}
    for text in node_texts:
        kept_node = decode(text, SavedNode)
        nodes[kept_node.name] = ModelNode(
            name=kept_node.name,
            pool=kept_node.pool,
            base=kept_node.base,
            created=kept_node.created,
            ready=kept_node.ready,
            version=kept_node.version,
            quiet=kept_node.quiet,
            expires=kept_node.expires,
            claim=kept_node.claim,
            created_for=kept_node.created_for,
            leaves=kept_node.leaves,
            awaits_pods_until=kept_node.awaits_pods_until,
            arrivals=kept_node.arrivals,
        )
    quiet = {name: node.quiet for name, node in nodes.items()}
    cluster = ModelCluster(nodes, bought=totals.bought, disturbance=totals.ours)
    for live in pods:
        if live.ends:
            continue
        place = places.get(live.uid, PodPlace(WAITS, live.pod.created))
        cluster.add_pod(live.created_at(place.created), now)
        node = OUTSIDE if live.outside else place.node
        if node == OUTSIDE or node in nodes:
            cluster.place(live.uid, node, now)
    for name, since in quiet.items():
        if since > 0:
            cluster.nodes[name].quiet = since
    return cluster


def places_of(cluster: ModelCluster) -> dict[str, PodPlace]:
    """Return the place of each pod, by UID, without those that are outside of NodePools."""
    return {uid: PodPlace(pod.node, pod.live.pod.created) for uid, pod in cluster.pods.items() if pod.node != OUTSIDE}
