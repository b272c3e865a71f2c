"""Adds to a plan what users want to see: how full each node is and which workloads use it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tenon.kube.pod import Pod
from tenon.money import per_hour, price_text
from tenon.resources import CPU, MEMORY, Resources, subtract, total
from tenon.simulation.decisions import SolvedProblem
from tenon.simulation.document import Document
from tenon.simulation.hourly_costs import cost_sentences

SHOWN = (CPU, MEMORY)
"""Resources whose usage is drawn."""
BOUND = (
    "The lower bound of the price knows only resources, taints and node affinity, divides pods and nodes, and counts "
    "burstable types with all of their CPU, so good plans cost more"
)


@dataclass(frozen=True, slots=True)
class WorkloadShare:
    """The resources of a node that one workload's pods, or its existing pods, use."""

    name: str
    count: int
    requests: Resources


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A node that the plan uses."""

    name: str
    pool: str
    instance_type: str
    zone: str
    capacity_type: str
    price: float | None
    """Dollars per hour; None for an existing node."""
    alternatives: int
    """Number of other suitable instance types."""
    allocatable: Resources
    shares: Sequence[WorkloadShare]
    why: str = ""
    """Why the plan chose this type, as a sentence; empty for an existing node."""

    @property
    def requested(self) -> Resources:
        """Total requests on the node."""
        return total(share.requests for share in self.shares)

    def used(self, resource: str) -> float:
        """Requested fraction of a resource, 0 to 1."""
        room = self.allocatable.get(resource, 0)
        return min(1.0, self.requested.get(resource, 0) / room) if room else 0.0

    @property
    def pods(self) -> int:
        """Number of pods that the plan puts on the node."""
        return sum(share.count for share in self.shares)


@dataclass(frozen=True, slots=True)
class PlanReport:
    """A plan in the form that is shown to users."""

    document: Document
    nodes: Sequence[NodeReport]

    @property
    def reasons(self) -> dict[str, list[str]]:
        """Explanations of instance types, each with the names of its new nodes, in plan order."""
        pods_by_reason: dict[str, list[str]] = {}
        for node in self.nodes:
            if node.why:
                pods_by_reason.setdefault(node.why, []).append(node.name)
        return pods_by_reason

    @property
    def rules(self) -> str:
        """A sentence on the criteria, besides price, that plans were compared by."""
        totals = self.document["totals"]
        share = totals["maxWorkloadSharePerNode"]
        text = f"Every new node counts {per_hour(totals['nodeCharge'])} in addition to its price"
        if share < 1:
            text += (
                f"; at most {share:.0%} of a workload is put on one node, except pods that must share a node"
                " and pods that fit only on an existing one"
            )
        least = totals["lowerBoundCostPerHour"]
        if totals["nodes"] and totals["nodeCharge"]:
            text += f"; with it they come to {price_text(totals['costPerHour'])}"
            text += f" (lower bound {price_text(least)})" if least else ""
        return ". ".join([text, *([BOUND, *self._sizing] if least else ()), *cost_sentences(self.document)])

    @property
    def _sizing(self) -> list[str]:
        """A sentence on what the plan costs by the rules that it was sized by, if there is a bound for it."""
        totals = self.document["totals"]
        cost, least = totals["sizingCostPerHour"], totals["lowerBoundSizingCostPerHour"]
        if not (cost and least):
            return []
        return [
            "By the rules that Tenon sizes nodes by (the charge, burstable types with their CPU baseline, limits of"
            f" pods on a node, spread over zones) the plan costs {price_text(cost)}, {cost / least:.3f} times the lower"
            f" bound under the same rules, {price_text(least)}"
        ]


def report(decision: SolvedProblem, document: Document) -> PlanReport:
    """Return the report of a plan and its document."""
    types = {pool.name: {kind.name: kind for kind in pool.instance_types} for pool in decision.problem.pools}
    nodes = []
    for claim, entry in zip(decision.plan.claims, document["nodeClaims"], strict=True):
        capacity_type, instance_type, zone = claim.offering[:3]
        shares = shares_of(claim.pods)
        daemons = subtract(claim.requests, total(share.requests for share in shares))
        if any(daemons.values()):
            shares = [WorkloadShare("DaemonSets", 0, daemons), *shares]
        nodes.append(
            NodeReport(
                name=entry["name"],
                pool=claim.pool,
                instance_type=instance_type,
                zone=zone,
                capacity_type=capacity_type,
                price=claim.price,
                alternatives=len(claim.instance_types) - 1,
                allocatable=types[claim.pool][instance_type].allocatable,
                shares=shares,
                why=entry["why"],
            )
        )
    return PlanReport(document, [*nodes, *_existing(decision)])


def before_and_after(totals: Document) -> str:
    """Return how many nodes of NodePools there are before and after the disruption, and what they cost."""
    before, after = (
        f"{totals[f'nodes{when}Disruption']} for {per_hour(totals[f'pricePerHour{when}Disruption'])}"
        for when in ("Before", "After")
    )
    return f"Nodes of NodePools: {before} now, {after} after the disruption"


def _existing(decision: SolvedProblem) -> list[NodeReport]:
    by_name = {node.name: node for node in decision.problem.nodes}
    nodes = []
    for name, pods in sorted(decision.plan.placements.items()):
        node = by_name.get(name)
        if node is None or not pods:
            continue
        nodes.append(
            NodeReport(
                name=name,
                pool="",
                instance_type=_label(node.labels, "node.kubernetes.io/instance-type"),
                zone=_label(node.labels, "topology.kubernetes.io/zone"),
                capacity_type=_label(node.labels, "karpenter.sh/capacity-type"),
                price=None,
                alternatives=0,
                allocatable=node.allocatable,
                shares=[WorkloadShare("there already", 0, node.used), *shares_of(pods)],
            )
        )
    return nodes


def _label(labels: Mapping[str, str], key: str) -> str:
    return labels.get(key, "")


def shares_of(pods: Sequence[Pod]) -> list[WorkloadShare]:
    """Group pods by workload, largest first. Pods whose names differ only in the replica number form one group."""
    counts: Counter[str] = Counter()
    requests: dict[str, Resources] = {}
    for pod in pods:
        name = without_replica_number(pod.key)
        counts[name] += 1
        requests[name] = total((requests.get(name, {}), pod.requests))
    shares = [WorkloadShare(name, count, requests[name]) for name, count in counts.items()]
    return sorted(shares, key=lambda share: (-share.requests.get(CPU, 0), -share.requests.get(MEMORY, 0), share.name))


def without_replica_number(key: str) -> str:
    """Return ``namespace/name`` of a pod without the number that the simulation gives to the pods of a workload.

    Plans as documents have only the keys of pods. Other names stay whole, unlike those of `tenon.kube.pod_workload`:
    files have pods of their own, and nothing says that ``web-proxy`` is one of several.
    """
    name, dash, number = key.rpartition("-")
    return name if dash and number.isdigit() else key
