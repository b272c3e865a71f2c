"""What all attempts to plan the same pods have in common, computed once: their classes, groups, and counts.

The engine plans small batches three times, to compare its plan with plain first-fit, and starts again if a spread
constraint has to compare more domains. A search for moves asks for hundreds of plans, so what each of them begins with
is much of its time.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.kube.taints import Taint
from tenon.scheduling.domains.running_counts import RunningCounts
from tenon.scheduling.existing.cluster_facts import ClusterFacts
from tenon.scheduling.existing.existing_nodes import Room, rooms_of
from tenon.scheduling.model import Pool, Problem
from tenon.scheduling.pods.blast_radius import BlastRadius
from tenon.scheduling.pods.pod_classes import PodClass, group, resource_names
from tenon.scheduling.pods.relaxation import forms
from tenon.scheduling.pods.topology import Topology
from tenon.scheduling.reservations import in_order


class Batch:
    """A problem, and what follows from it alone. No attempt changes it."""

    def __init__(self, problem: Problem, last: frozenset[str] = frozenset(), facts: ClusterFacts | None = None) -> None:
        """Read the problem. The pods with the keys in ``last`` are placed after all others."""
        self.problem = problem
        self.facts = facts or ClusterFacts()
        self.refusal_reasons = {
            pod.key: NoPlace.of(reason) for pod in problem.pods if (reason := pod.unsupported or _unknown(pod, problem))
        }
        """By key, why pods cannot be planned at all."""
        pods = [pod for pod in problem.pods if pod.key not in self.refusal_reasons]
        self.size = len(pods)
        self.names = resource_names([*pods, *problem.daemons])
        self.topology = Topology(problem, self.facts.nodes)
        by_workload = self.shares().limited
        first = [pod for pod in pods if pod.key not in last] if last else pods
        self.classes = group(first, self.names, self.topology, by_workload=by_workload)
        last_pods = [pod for pod in pods if pod.key in last] if last else []
        self.later = group(last_pods, self.names, self.topology, by_workload=by_workload)
        soft = _soft_taints(problem)
        self.ways = {id(pod_class): forms(pod_class, self.topology, soft) for pod_class in self.all_classes()}
        """By the identity of a class, its forms with fewer and fewer preferences."""
        self._running: RunningCounts | None = None

    def all_classes(self) -> list[PodClass]:
        """Return the classes of all pods."""
        return [*self.classes, *self.later]

    def spreads(self) -> bool:
        """Whether pods spread over domains that are not single nodes."""
        return any(pod_class.area is not None and pod_class.area.spreads for pod_class in self.all_classes())

    @cached_property
    def pools(self) -> list[Pool]:
        """The NodePools in the order in which they are tried, divided by the reservations that they may use."""
        return in_order(self.problem.pools)

    def shares(self) -> BlastRadius:
        """Return the rule about the share of a workload on one node, for one attempt."""
        return BlastRadius(self.problem.most_pods_share, self.problem.pods, self.problem.nodes)

    def rooms(self, shares: BlastRadius) -> list[Room]:
        """Return the existing nodes, with none of the pods."""
        return rooms_of(self.problem.nodes, self.problem.pools, self.names, shares, self.facts.nodes)

    def running(self, rooms: list[Room]) -> RunningCounts:
        """Return the counts of the pods on the existing nodes. ``rooms`` are those of any attempt."""
        if self._running is None:
            self._running = RunningCounts(self.topology, rooms, self.all_classes())
        return self._running


def _soft_taints(problem: Problem) -> list[Taint]:
    taints = dict.fromkeys(chain.from_iterable(pool.taints for pool in problem.pools))
    return [taint for taint in taints if taint.effect == "PreferNoSchedule"]


def _unknown(pod: Pod, problem: Problem) -> str:
    """Why a pod's rules cannot be evaluated; empty if they can."""
    if problem.namespaces is None and pod.rules:
        for term in pod.rules.terms:
            if term.namespace_selector is not None and term.namespace_selector.expressions:
                return (
                    f"a term over {term.key} chooses namespaces by label, and labels of namespaces are not known here"
                )
    return ""
