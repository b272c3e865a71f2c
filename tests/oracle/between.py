"""Rules between pods: topology spread, affinity and anti-affinity.

kube-scheduler places pods one after another, so a plan is right when there is an order in which each of its pods is
let in. Each rule is looked at by itself, in the order that suits it best: what is found wrong is wrong in any order.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.oracle.alone import claims_of, reachable
from tests.oracle.beside_daemons import coming_to, runs_in, tolerates
from tests.oracle.conditions import HOST, Value
from tests.oracle.findings import Finding
from tests.oracle.inputs import Inputs, Kind, Offer, Pod, Spread, Term
from tests.oracle.places import NewNode, Place, launchable
from tests.oracle.quantities import lacking, plus
from tests.oracle.readings import KUBE_SCHEDULER, Reading


class Between:
    """Looks at all nodes of a plan together."""

    def __init__(self, inputs: Inputs, places: Sequence[Place], reading: Reading = KUBE_SCHEDULER) -> None:
        self._inputs = inputs
        self._places = places
        self._reading = reading
        self._pools = [launchable(inputs, pool) for pool in inputs.pools.values() if not pool.static]
        self._offered: dict[tuple[object, ...], frozenset[str]] = {}

    def findings(self) -> Iterator[Finding]:
        """All rules between pods that the plan breaks."""
        owners: dict[Spread, list[tuple[Pod, Place]]] = defaultdict(list)
        for place in self._places:
            for pod in place.planned:
                for spread in pod.spreads:
                    owners[spread].append((pod, place))
        for spread, pods in owners.items():
            yield from self._spread(spread, pods)
        yield from self._near()
        yield from self._away()

    def counts(self, spread: Spread, place: Place) -> bool:
        """Whether a constraint counts the pods of a node."""
        if spread.honors_affinity and not place.suits(spread.wish):
            return False
        if spread.honors_taints and not tolerates(spread.tolerations, place.taints):
            return False
        return all(None not in place.domains(key) for key in self._keys(spread))

    def _keys(self, spread: Spread) -> tuple[str, ...]:
        """The labels that a node must have to count."""
        return spread.keys if self._reading.all_keys else (spread.key,)

    def offered(self, spread: Spread) -> frozenset[str]:
        """The domains in which a node could be launched that holds a pod that the constraint counts."""
        wishes = (spread.wish, spread.tolerations, spread.key, spread.keys)
        if wishes not in self._offered:
            values: set[Value] = set()
            for pool in self._pools:
                if tolerates(spread.tolerations, pool.taints):
                    values |= self._launched(spread, pool) & self._holding(spread, pool)
            self._offered[wishes] = frozenset(value for value in values if isinstance(value, str))
        return self._offered[wishes]

    def _launched(self, spread: Spread, pool: NewNode) -> set[Value]:
        needed = self._keys(spread)
        keys = (*spread.wish.keys, *needed)

        def met(labels: Mapping[str, Value]) -> bool:
            return None not in map(labels.get, needed) and spread.wish.met(labels, open_counts=True)

        if self._reading.own_values:
            return {labels[spread.key] for labels in pool.futures(keys) if met(labels)}
        return {labels[spread.key] for row in pool.rows(keys) if any(map(met, row)) for labels in row}

    def _holding(self, spread: Spread, pool: NewNode) -> set[Value]:
        """The domains in which the pool has a node for one of the pending pods that the constraint is about."""
        values: set[Value] = set()
        about = (
            pod
            for pod in self._inputs.pending.values()
            if spread in pod.spreads or spread.selector.has(pod.namespace, pod.labels)
        )
        for pod in {id(pod.spec): pod for pod in about}.values():
            reach = [reachable(self._inputs, claim) for _, claim in claims_of(self._inputs, pod)]
            if not tolerates(pod.tolerations, pool.taints) or any(isinstance(wish, str) for wish in reach):
                continue
            wishes = [wish for wish in reach if not isinstance(wish, str)]
            if self._reading.own_values:
                wishes.append(pod.wish)
            keys = {spread.key}.union(*(wish.keys for wish in wishes))
            ways = [way for way in pool.ways if self._has_room(pod, pool, way)]
            roomy = NewNode(pool.name, pool.taints, conditions=pool.conditions, ways=ways, cloud_keys=pool.cloud_keys)
            for labels in roomy.futures(keys):
                if all(wish.met(labels, open_counts=True) for wish in wishes):
                    values.add(labels[spread.key])
        return values

    def _has_room(self, pod: Pod, pool: NewNode, way: tuple[Kind, Offer]) -> bool:
        if lacking(pod.requests, way[0].room):
            return False
        daemons = [daemon for daemon in coming_to(self._inputs, pool) if runs_in(daemon, pool, way)]
        return not lacking(plus((pod.requests, *(daemon.requests for daemon in daemons))), way[0].room)

    def _spread(self, spread: Spread, owners: Sequence[tuple[Pod, Place]]) -> Iterator[Finding]:
        """Let the constraint's own pods in one by one; others that it counts come whenever that helps.

        kube-scheduler may place pods on nodes that run before any new node is there. It then compares only the domains
        of nodes that run. So a plan is also right if it is right in that order.
        """
        findings = list(self._all_at_once(spread, owners))
        if findings and spread.key != HOST:
            findings = list(self._running_nodes_first(spread, owners)) and findings
        yield from findings

    def _all_at_once(self, spread: Spread, owners: Sequence[tuple[Pod, Place]]) -> Iterator[Finding]:
        counts: Counter[str] = Counter()
        if spread.key != HOST:
            counts.update(dict.fromkeys(self.offered(spread), 0))
        counts, later = self._counted(spread, owners, self._places, counts)
        yield from self._let_owners_in(spread, owners, counts, later)

    def _running_nodes_first(self, spread: Spread, owners: Sequence[tuple[Pod, Place]]) -> Iterator[Finding]:
        new = [place for place in self._places if isinstance(place, NewNode)]
        running = [place for place in self._places if not isinstance(place, NewNode)]
        present_items, later = self._counted(spread, owners, running, Counter())
        yield from self._let_owners_in(
            spread, [owner for owner in owners if not isinstance(owner[1], NewNode)], present_items, later
        )
        present_items.update(dict.fromkeys(self.offered(spread) - present_items.keys(), 0))
        present_items, later_on_new = self._counted(spread, owners, new, present_items)
        later.update(later_on_new)
        yield from self._let_owners_in(
            spread, [owner for owner in owners if isinstance(owner[1], NewNode)], present_items, later
        )

    def _counted(
        self, spread: Spread, owners: Sequence[tuple[Pod, Place]], places: Sequence[Place], counts: Counter[str]
    ) -> tuple[Counter[str], Counter[str]]:
        """By domain, the pods that run on these nodes, added to ``counts``, and those planned that are no owners."""
        own = {pod.key for pod, _ in owners}
        later: Counter[str] = Counter()
        for place in places:
            domain = place.domain(spread.key) if self.counts(spread, place) else None
            if domain is not None:
                counts[domain] += sum(spread.selector.has(pod.namespace, pod.labels) for pod in place.running)
                later[domain] += sum(
                    pod.key not in own and spread.selector.has(pod.namespace, pod.labels) for pod in place.planned
                )
        return counts, later

    def _let_owners_in(
        self, spread: Spread, owners: Sequence[tuple[Pod, Place]], counts: Counter[str], later: Counter[str]
    ) -> Iterator[Finding]:
        waiting: dict[str, list[list[Pod]]] = defaultdict(lambda: [[], []])
        for pod, place in owners:
            domain = place.domain(spread.key)
            if domain is None:
                yield Finding("spread", place.name, f"{pod.key}: {spread.key} is absent or left open")
            else:
                waiting[domain][spread.selector.has(pod.namespace, pod.labels)].append(pod)
        yield from self._let_in(spread, counts, later, waiting)

    @staticmethod
    def _let_in(
        spread: Spread, present_items: Counter[str], later: Counter[str], waiting: dict[str, list[list[Pod]]]
    ) -> Iterator[Finding]:
        """``waiting`` are the pods of each domain: those that the constraint does not count, and those it does."""
        while any(map(any, waiting.values())):
            lowest = (
                0
                if spread.key == HOST or len(present_items) < spread.least_domains
                else min(present_items.values(), default=0)
            )
            moved = False
            for domain, (outside, counted) in waiting.items():
                if present_items[domain] - lowest <= spread.most_skew:
                    moved = moved or bool(outside)
                    outside.clear()
                if counted and present_items[domain] + 1 - lowest <= spread.most_skew:
                    counted.pop()
                    present_items[domain] += 1
                    moved = True
                    break
            if not moved:
                helped = next((d for d, count in present_items.items() if count == lowest and later[d]), None)
                if helped is None:
                    break
                later[helped] -= 1
                present_items[helped] += 1
        for domain, groups in waiting.items():
            for pod in (*groups[0], *groups[1]):
                counts = dict(sorted(present_items.items())[:12])
                text = f"{pod.key}: {spread.key} {domain} would be above maxSkew {spread.most_skew}, of {counts}"
                yield Finding("spread", domain, text)

    def _daemons_on(self, place: Place, *, certain: bool) -> list[Pod]:
        """The DaemonSets whose pods come to a new node however it is bought, or in some way of buying it."""
        if not isinstance(place, NewNode):
            return []
        judged = all if certain else any
        return [d for d in coming_to(self._inputs, place) if judged(runs_in(d, place, way) for way in place.ways)]

    def _near(self) -> Iterator[Finding]:
        """Required affinity: kube-scheduler counts only pods that all terms of the arriving pod are about.

        A pod that is itself what it asks for may be the first, where none was running: once for all that ask alike.
        """

        def together(pod: Pod) -> tuple[tuple[Term, ...], ...]:
            return (pod.near,) if self._reading.joint_terms else tuple((term,) for term in pod.near)

        planned = [pod for place in self._places for pod in place.planned if pod.near]
        fromkeys = list(dict.fromkeys(near for pod in planned for near in together(pod)))
        present: dict[tuple[Term, ...], dict[str, set[Value]]] = {near: defaultdict(set) for near in fromkeys}
        hosts: dict[tuple[Term, ...], set[str]] = {near: set() for near in fromkeys}

        def arrived(pod: Pod, place: Place) -> None:
            for near in fromkeys:
                if _all_about(near, pod):
                    hosts[near].add(place.name)
                    for term in near:
                        domain = place.domain(term.key)
                        present[near][term.key] |= {domain} if domain is not None else set()

        def beside(near: tuple[Term, ...], place: Place) -> bool:
            for term in near:
                domains = place.domains(term.key)
                if None in domains:
                    return False
                if place.name not in hosts[near] and not domains <= present[near][term.key]:
                    return False
            return True

        for place in self._places:
            for pod in place.running:
                arrived(pod, place)
        begun = {near for near in fromkeys if any(map(bool, present[near].values()))}

        for place in self._places:
            for daemon in self._daemons_on(place, certain=True):
                arrived(daemon, place)

        def first(near: tuple[Term, ...], pod: Pod, place: Place) -> bool:
            if near in begun or not _all_about(near, pod):
                return False
            return all(None not in place.domains(term.key) for term in near)

        waiting: list[tuple[Pod, Place]] = []
        for place in self._places:
            for pod in place.planned:
                if pod.near:
                    waiting.append((pod, place))
                else:
                    arrived(pod, place)
        while waiting:
            ready = [(pod, place) for pod, place in waiting if all(beside(near, place) for near in together(pod))]
            if not ready:
                starting = [
                    (pod, place)
                    for pod, place in waiting
                    if all(beside(near, place) or first(near, pod, place) for near in together(pod))
                ]
                if not starting:
                    break
                # one whose domains are settled tells more than one whose domains are open
                ready = [min(starting, key=lambda pair: sum(len(pair[1].domains(t.key)) for t in pair[0].near))]
                begun.update(together(ready[0][0]))
            for pod, place in ready:
                arrived(pod, place)
            keys = {pod.key for pod, _ in ready}
            waiting = [(pod, place) for pod, place in waiting if pod.key not in keys]
        for pod, place in waiting:
            yield Finding("pod-affinity", place.name, f"{pod.key} is next to no pod that it asks for")

    def _away(self) -> Iterator[Finding]:
        """Required anti-affinity keeps both apart in either order; two that ran before are not looked at."""
        holders: dict[Term, list[tuple[Pod, Place]]] = defaultdict(list)
        for place in self._places:
            for pod in (*place.running, *place.planned):
                for term in pod.away:
                    holders[term].append((pod, place))
        planned = {pod.key for place in self._places for pod in place.planned}
        for term, holding in holders.items():
            about: dict[Value, list[Pod]] = defaultdict(list)
            for place in self._places:
                ps = [p for p in (*place.running, *place.planned) if term.selector.has(p.namespace, p.labels)]
                for domain in place.domains(term.key) - {None} if ps else ():
                    about[domain] += ps
            for pod, place in holding:
                for domain in place.domains(term.key) - {None}:
                    other = next((p for p in about[domain] if p is not pod and {p.key, pod.key} & planned), None)
                    if other is not None:
                        text = f"{pod.key} and {other.key} may both be in {term.key} {domain}"
                        yield Finding("pod-anti-affinity", place.name, text)
        for place in self._places:
            for daemon in self._daemons_on(place, certain=False) if place.planned else ():
                for pod in place.planned:
                    if _apart(pod, daemon) or _apart(daemon, pod):
                        text = f"{pod.key} and the pod of DaemonSet {daemon.key} may not be on one node"
                        yield Finding("pod-anti-affinity", place.name, text)


def _apart(pod: Pod, other: Pod) -> bool:
    return any(term.selector.has(other.namespace, other.labels) for term in pod.away)


def _all_about(terms: Sequence[Term], pod: Pod) -> bool:
    return all(term.selector.has(pod.namespace, pod.labels) for term in terms)
