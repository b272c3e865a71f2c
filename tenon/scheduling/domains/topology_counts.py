"""Counts the pods of each topology group per domain, and derives what the rules of a class allow.

For spread and affinity, a pod counts only if its node's domain is settled. For anti-affinity, it counts in every domain
that its node may still get.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tenon.scheduling.domains.domain_values import ANY, Domains
from tenon.scheduling.domains.running_counts import RunningCounts, Tally, add
from tenon.scheduling.existing.existing_nodes import Room
from tenon.scheduling.pods.hostname_rules import UNBOUNDED
from tenon.scheduling.pods.pod_classes import PodClass
from tenon.scheduling.pods.topology import AreaRules, AreaSpread, Topology
from tenon.scheduling.pods.topology_groups import SPREAD, NodeFilter


class TopologyCounts:
    """Counts of all groups of a batch."""

    def __init__(
        self,
        topology: Topology,
        domains: Domains,
        rooms: Sequence[Room],
        running: RunningCounts,
        planned_domains: frozenset[tuple[int, str]] = frozenset(),
        classes: Iterable[PodClass] = (),
    ) -> None:
        """Start with the pods that run or are promised to nodes, also on the nodes themselves.

        Args:
            topology: the groups.
            domains: of the nodes.
            rooms: the nodes.
            running: the counts of their pods.
            planned_domains: extra (group, domain) pairs to compare.
            classes: the pods of the batch.
        """
        self._groups = topology.groups
        self._more = planned_domains
        self.of_daemons = frozenset(group for group in topology.of_daemons if group > 0)
        """The groups that count pods of DaemonSets, which come with a new node."""
        self.reaches: Callable[[PodClass, str, str], bool] = _anywhere
        """Whether a node that could be launched for the pods, in this domain of the key, holds one of them."""
        self._reachable: dict[tuple[int, str], bool] = {}
        self._members = self._by_spread(classes)
        self.compared: dict[tuple[PodClass, AreaSpread], frozenset[str]] = {}
        """The domains that each spread constraint compared."""
        self._domains = domains
        self._counts = _copied(running.counts)
        self._possible = _copied(running.possible)
        self._holders = _copied(running.holders)
        self._least: dict[tuple[PodClass, AreaSpread], int] = {}
        """Valid until more pods are placed."""
        self.totals = dict(running.totals)
        """The number of pods that each group counts, in any domain."""
        for room, hosts in zip(rooms, running.on_hosts, strict=True):
            room.hosts = dict(hosts)

    def by_daemons(self, pod_class: PodClass, domain_values: Mapping[str, str | None]) -> frozenset[int]:
        """The affinity groups without a pod in these domains that a new node's DaemonSets would give one."""
        if not self.of_daemons or pod_class.area is None:
            return frozenset()
        return frozenset(
            term.group
            for term in pod_class.area.affine
            if term.group in self.of_daemons
            and not self._counts.get(term.group, {}).get(domain_values.get(term.key) or "")
        )

    def quota(
        self,
        pod_class: PodClass,
        domain_values: Mapping[str, str | None],
        rules: AreaRules | None = None,
        met: frozenset[int] = frozenset(),
    ) -> int:
        """How many of the pods may go to these domains, one after another; None for a label that the node lacks.

        ``rules`` defaults to all rules of the class. ``met`` are affinity groups that need no further pod.
        """
        rules = rules or pod_class.area
        if rules is None:
            return UNBOUNDED
        quota = UNBOUNDED
        for group, key in rules.repelled:
            domain = domain_values.get(key)
            if domain is not None and _is_allowed(self._holders, group, domain):
                return 0
            if key not in domain_values and self._holders.get(group):
                return 0  # an open domain might become one that repels the pods
        for term in rules.anti:
            domain = domain_values.get(term.key)
            if domain is not None:
                if _is_allowed(self._possible, term.group, domain):
                    return 0
                quota = min(quota, 1) if term.counts_itself else quota
        for term in rules.affine:
            domain = domain_values.get(term.key)
            if domain is None:
                return 0
            if term.group in met or self._counts.get(term.group, {}).get(domain):
                continue
            if not self.may_start_group(pod_class):
                return 0
        for spread in rules.spreads:
            domain = domain_values.get(spread.key)
            if domain is None:
                return 0
            slack = spread.max_skew + self.least(pod_class, spread) - self._counts.get(spread.group, {}).get(domain, 0)
            quota = min(quota, max(0, slack) if spread.counts_itself else UNBOUNDED if slack >= 0 else 0)
        return quota

    def least(self, pod_class: PodClass, spread: AreaSpread) -> int:
        """The smallest count among the domains that the pods could use; 0 while there are fewer than minDomains."""
        lowest_count = self._least.get((pod_class, spread))
        if lowest_count is None:
            universe = self.universe(pod_class, spread)
            counts = self._counts.get(spread.group, {})
            enough = len(universe) >= spread.min_domains
            lowest_count = min((counts.get(domain, 0) for domain in universe), default=0) if enough else 0
            self._least[pod_class, spread] = lowest_count
        return lowest_count

    def universe(self, pod_class: PodClass, spread: AreaSpread) -> frozenset[str]:
        """The domains that a spread constraint compares: those with nodes, and those that its pods could get nodes in.

        kube-scheduler knows only domains with nodes. A domain whose nodes would hold none of the pods stays without
        them, so if it counted, its 0 pods would keep the others waiting forever.
        """
        compared_domains = self.compared.get((pod_class, spread))
        if compared_domains is None:
            nodes = self._groups[spread.group].nodes
            present_domains = self._domains.present(spread.key, nodes).union(
                domain for group, domain in self._more if group == spread.group
            )
            new = self._domains.usable(pod_class, spread.key, nodes) - present_domains
            compared_domains = present_domains.union(
                domain for domain in new if self._is_reachable(pod_class, spread, domain)
            )
            self.compared[pod_class, spread] = compared_domains
        return compared_domains

    def _is_reachable(self, pod_class: PodClass, spread: AreaSpread, domain: str) -> bool:
        """Whether a new node in the domain could hold one of these pods, or another that the constraint counts."""
        if self.reaches(pod_class, spread.key, domain):
            return True
        is_reachable = self._reachable.get((spread.group, domain))
        if is_reachable is None:
            members = self._members.get(spread.group, ())
            is_reachable = any(self.reaches(member, spread.key, domain) for member in members)
            self._reachable[spread.group, domain] = is_reachable
        return is_reachable

    def spare_changes(self, pod_class: PodClass) -> dict[str, tuple[int, int]]:
        """By how much the number of these pods may change in each domain, whatever it becomes in the others.

        Empty if anything but one spread constraint of the pods depends on their domains.
        """
        rules = pod_class.area
        if rules is None or len(rules.spreads) != 1 or len(rules.counted) != 1:
            return {}
        if rules.affine or rules.anti or rules.repelled or rules.holds:
            return {}
        (spread,) = rules.spreads
        forms = [form for form, compared_spread in self.compared if compared_spread.group == spread.group]
        if not spread.counts_itself or forms != [pod_class]:
            return {}
        domains = self.compared[pod_class, spread]
        counts = {domain: self._counts.get(spread.group, {}).get(domain, 0) for domain in sorted(domains)}
        least = 0
        if len(domains) >= spread.min_domains:
            least = least_per_domain(sum(counts.values()), len(domains), spread.max_skew)
        changes = {domain: (least - count, least + spread.max_skew - count) for domain, count in counts.items()}
        return changes if all(fewer <= 0 <= more for fewer, more in changes.values()) else {}

    def forget_placed(self, waiting_classes: Sequence[PodClass], planned: frozenset[tuple[int, str]]) -> None:
        """Let the waiting pods compare fewer domains: of those without nodes, only where one of these pods can go.

        Pods that have their places need no other domain any more. ``planned`` are the (group, domain) pairs of planned
        nodes, which count in any case.
        """
        self._more |= planned
        self._members = self._by_spread(waiting_classes)
        self._reachable.clear()
        self._least.clear()
        origins = {id(pod_class.origin) for pod_class in waiting_classes}
        for key in [key for key in self.compared if id(key[0].origin) in origins]:
            del self.compared[key]

    def _by_spread(self, classes: Iterable[PodClass]) -> dict[int, list[PodClass]]:
        """The classes that each spread group counts."""
        classes_by_spread: dict[int, list[PodClass]] = {}
        for pod_class in classes:
            for group in pod_class.part.counted if pod_class.part is not None else ():
                if self._groups[group].kind == SPREAD:
                    classes_by_spread.setdefault(group, []).append(pod_class)
        return classes_by_spread

    def nodes_of(self, group: int) -> NodeFilter:
        """The nodes that a group counts."""
        return self._groups[group].nodes

    def attraction(self, pod_class: PodClass, domain_values: Mapping[str, str | None]) -> tuple[int, ...]:
        """Sort key for domains: first where spread wants the next pod, then where pods that belong together are."""
        rules = pod_class.area
        if rules is None:
            return ()
        spread = sum(self._counts.get(s.group, {}).get(domain_values.get(s.key) or "", 0) for s in rules.spreads)
        related = own = 0
        for group, key in rules.counted:
            near = self._counts.get(group, {}).get(domain_values.get(key) or "", 0)
            if self._groups[group].kind == SPREAD:
                own += near
            else:
                related += near
        return spread, -related, own

    def record(
        self,
        pod_class: PodClass,
        pods: int,
        domain_values: Mapping[str, str | None],
        open_to: Callable[[str], Iterable[str]],
        counted_by: Callable[[NodeFilter], bool],
    ) -> None:
        """Count pods that were placed. ``open_to`` returns the domains that a key not in ``domain_values`` may get."""
        if pod_class.part is not None:
            for group in pod_class.part.counted:
                self.totals[group] = self.totals.get(group, 0) + pods
        rules = pod_class.area
        if rules is None:
            return
        self._least.clear()
        own = {spread.group for spread in rules.spreads}
        for group, key in rules.counted:
            domain = domain_values.get(key)
            if domain is not None and (group in own or counted_by(self._groups[group].nodes)):
                add(self._counts, group, domain, pods)
            for value in (domain,) if domain is not None else () if key in domain_values else open_to(key):
                add(self._possible, group, value, pods)
        for group, key in rules.holds:
            domain = domain_values.get(key)
            for value in (domain,) if domain is not None else () if key in domain_values else open_to(key):
                add(self._holders, group, value, pods)

    def may_start_group(self, pod_class: PodClass) -> bool:
        """True if no pod matches any affinity term yet and the pods match their own, so they may start the group."""
        area = pod_class.area.affine if pod_class.area is not None else ()
        groups = [(term.group, term.counts_itself) for term in area]
        groups += [(term.group, term.counts_itself) for term in pod_class.near]
        return all(itself and not self.totals.get(group) for group, itself in groups)


def least_per_domain(pods: int, domains: int, max_skew: int) -> int:
    """The pods that each domain has however unevenly they spread: with N pods, Z domains and a skew of S,
    (N - (Z - 1) * S) / Z.
    """
    return max(0, -(-(pods - (domains - 1) * max_skew) // domains)) if domains else 0


def _anywhere(pod_class: PodClass, key: str, domain: str) -> bool:  # noqa: ARG001
    """Until it is known what can be launched, every domain counts."""
    return True


def _is_allowed(tallies: Mapping[int, Tally], group: int, domain: str) -> bool:
    """Whether a pod may be in the domain."""
    tally = tallies.get(group)
    return tally is not None and bool(tally.get(domain) or tally.get(ANY))


def _copied(tallies: Mapping[int, Tally]) -> dict[int, Tally]:
    return {group: dict(tally) for group, tally in tallies.items()}
