"""The cluster as a report sees it: each node with its NodeClaim and its pods, at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.fleet.document import Fleet
from tenon.fleet.rows import NodeRow
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.pod_disruption_budgets import PodDisruptionBudget
from tenon.kube.records import NodeRecord, ObjectRecord, PodRecord
from tenon.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, total

HOURS_A_DAY = 24
_ORDINARY = frozenset({CPU, MEMORY, PODS, EPHEMERAL_STORAGE})


@dataclass(frozen=True, slots=True)
class LiveNode:
    """A Node, a NodeClaim, or both, with the pods on it."""

    row: NodeRow
    claim: ClaimRecord | None = None
    node: NodeRecord | None = None
    pods: Sequence[PodRecord] = ()

    @property
    def name(self) -> str:
        """The name of the Node, or else of the NodeClaim."""
        return self.row.name

    @property
    def running_pods(self) -> list[PodRecord]:
        """The pods that hold resources, by name."""
        return sorted((pod for pod in self.pods if not pod.terminal), key=lambda pod: pod.key)

    @property
    def dollars_a_day(self) -> float:
        """What the node costs in a day; 0 if its price is not known."""
        return HOURS_A_DAY * (self.row.price or 0.0)

    @property
    def device_share(self) -> float:
        """The highest share of a device that is requested, such as of GPUs; 0 if the node has none."""
        allocatable = self.node.allocatable if self.node is not None else {}
        devices = {name: amount for name, amount in allocatable.items() if amount > 0 and name not in _ORDINARY}
        if not devices:
            return 0.0
        requests = total(pod.pod.requests for pod in self.pods if not pod.terminal)
        return max(requests.get(name, 0) / amount for name, amount in devices.items())


@dataclass(frozen=True, slots=True)
class LiveCluster:
    """All that is read of a cluster."""

    name: str
    """Empty if no cluster is named."""
    fleet: Fleet
    nodes: Sequence[LiveNode]
    pools: Sequence[ObjectRecord] = ()
    budgets: Sequence[PodDisruptionBudget] = ()
    blocked_texts: Mapping[str, str] = field(default_factory=dict)
    """By NodeClaim whose workflow is blocked, what blocks it and what resolves that, in lines."""


def dollars_a_day(nodes: Iterable[LiveNode]) -> float:
    """Return what the nodes cost in a day."""
    return sum(node.dollars_a_day for node in nodes)
