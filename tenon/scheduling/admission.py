"""Checks a plan that was made in several steps against rules over domains such as zones.

Each step was right for the pods as they were then. A later step may take pods out of a domain, and leave the pods of an
earlier one above their maxSkew, or without the pods that their affinity asks for. kube-scheduler lets pods in one after
another, so the plan is right if there is an order in which it lets in all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tenon.kube.pod import Pod
from tenon.scheduling.deadline import never
from tenon.scheduling.domains.domain_candidates import DomainCandidates
from tenon.scheduling.domains.domain_values import Domains, counts_node, value_on_node
from tenon.scheduling.domains.running_counts import RunningCounts, possible_on
from tenon.scheduling.domains.topology_counts import TopologyCounts
from tenon.scheduling.engine import templates_of
from tenon.scheduling.existing.cluster_facts import ClusterFacts
from tenon.scheduling.existing.existing_nodes import Room, rooms_of
from tenon.scheduling.model import Problem
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.pods.blast_radius import BlastRadius
from tenon.scheduling.pods.pod_classes import PodClass, group, resource_names
from tenon.scheduling.pods.relaxation import without_preferences
from tenon.scheduling.pods.topology import AreaRules, Topology
from tenon.scheduling.pods.topology_groups import HOSTNAME, topology_key
from tenon.scheduling.reservations import in_order


def depends_on_domains(pod: Pod) -> bool:
    """Whether the pod's place depends on which pods are in a domain larger than a node."""
    keys = [spread.key for spread in pod.rules.spreads if spread.hard]
    keys += [term.key for term in pod.rules.affinity]
    return any(topology_key(key) != HOSTNAME for key in keys)


def admits(
    problem: Problem,
    placements: Mapping[str, Sequence[Pod]],
    tables: TypeTables | None = None,
    facts: ClusterFacts | None = None,
) -> bool:
    """Return whether rules over domains let all these pods onto these nodes, in some order.

    Args:
        problem: the cluster without these pods. Its nodes include those that are still to be launched.
        placements: the pods by the name of their node.
        tables: of the lists of instance types, as for `solve`.
        facts: of the cluster, as for `solve`.
    """
    return _Admission(problem, placements, tables or TypeTables(), facts or ClusterFacts()).admits_all()


@dataclass(slots=True, eq=False)
class _Arrival:
    """Equal pods that go to one node."""

    pod_class: PodClass
    rules: AreaRules
    room: Room
    domain_values: Mapping[str, str | None]
    pods: int

    @property
    def has_rules(self) -> bool:
        return bool(self.rules.spreads or self.rules.affine)


class _Admission:
    """The counts of pods in each domain, and the pods that wait."""

    def __init__(
        self, problem: Problem, placements: Mapping[str, Sequence[Pod]], tables: TypeTables, facts: ClusterFacts
    ) -> None:
        node_of = {pod.key: name for name, pods in placements.items() for pod in pods}
        pods = [
            replace(pod, rules=without_preferences(pod.rules)) if pod.rules else pod
            for node_pods in placements.values()
            for pod in node_pods
        ]
        problem = replace(problem, pods=pods)
        names = resource_names([*pods, *problem.daemons])
        topology = Topology(problem, facts.nodes)
        classes = group(pods, names, topology)
        rooms = rooms_of(problem.nodes, problem.pools, names, facts=facts.nodes)
        domains = Domains(rooms)
        domains.templates = templates_of(
            problem, in_order(problem.pools), names, topology, BlastRadius(), never, tables, facts
        )
        self._counts = TopologyCounts(
            topology, domains, rooms, RunningCounts(topology, rooms, classes), classes=classes
        )
        self._counts.reaches = DomainCandidates(
            rooms, [Fleet(template) for template in domains.templates], domains
        ).holds_in
        room_of = {room.name: room for room in rooms}
        arrivals = [
            _arrival(pod_class, pod_class.area, room_of[name], pods_on_node)
            for pod_class in classes
            if pod_class.area is not None
            for name, pods_on_node in Counter(node_of[pod.key] for pod in pod_class.pods).items()
        ]
        self._waiting = [arrival for arrival in arrivals if arrival.has_rules]
        self._helpers = [arrival for arrival in arrivals if not arrival.has_rules]
        """Pods without such rules, which others count. They come whenever that lets in others."""

    def admits_all(self) -> bool:
        """Let the pods in one after another, as far as their rules allow."""
        fewer_domains = False
        while self._waiting:
            progress = [self._let_in(arrival) for arrival in self._waiting]
            if any(progress):
                self._waiting = [arrival for arrival in self._waiting if arrival.pods]
            elif self._helpers:
                self._let_in_helper()
            elif not fewer_domains:
                # the engine, too, lets the last pods ignore domains that only pods with a place could use
                self._counts.forget_placed([arrival.pod_class for arrival in self._waiting], frozenset())
                fewer_domains = True
            else:
                return False
        return True

    def _let_in(self, arrival: _Arrival) -> bool:
        met = self._counts.by_daemons(arrival.pod_class, arrival.domain_values)
        quota = self._counts.quota(arrival.pod_class, arrival.domain_values, arrival.rules, met)
        if quota <= 0:
            return False
        self._record(arrival, min(quota, arrival.pods))
        return True

    def _let_in_helper(self) -> None:
        """Let in one pod where the fewest are that the same rules count."""
        helper = min(
            self._helpers, key=lambda arrival: self._counts.attraction(arrival.pod_class, arrival.domain_values)
        )
        self._record(helper, 1)
        if not helper.pods:
            self._helpers.remove(helper)

    def _record(self, arrival: _Arrival, pods: int) -> None:
        arrival.pods -= pods
        self._counts.record(
            arrival.pod_class,
            pods,
            arrival.domain_values,
            lambda key: possible_on(arrival.room, key),
            lambda nodes: counts_node(arrival.room, nodes),
        )


def _arrival(pod_class: PodClass, area: AreaRules, room: Room, pods: int) -> _Arrival:
    """Return the arrival without its anti-affinity, which pods that leave cannot break."""
    domain_values = {key: value_on_node(room, key) for key in area.keys}
    return _Arrival(pod_class, replace(area, anti=(), repelled=()), room, domain_values, pods)
