"""Places pods with rules between pods, step by step: chooses a domain, then a node.

Existing nodes come first, then new nodes of this batch, then another new node. Within that order, the rules decide
which domain comes first: for spread the domain with the fewest pods, for affinity a domain with pods of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf

from tenon.kube.taints import untolerated
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.domains.domain_candidates import DomainCandidate, DomainCandidates
from tenon.scheduling.domains.domain_values import (
    ANY,
    Domains,
    counts_node,
    launchable,
    value_on_new_node,
    value_on_node,
)
from tenon.scheduling.domains.group_starts import Follower, GroupStarts, shared_node
from tenon.scheduling.domains.running_counts import possible_on
from tenon.scheduling.domains.topology_counts import TopologyCounts
from tenon.scheduling.existing.existing_nodes import Room
from tenon.scheduling.existing.room_index import RoomIndex
from tenon.scheduling.packing.bins import Bin
from tenon.scheduling.packing.fleet import Fleet
from tenon.scheduling.pods.hostname_rules import HostRules
from tenon.scheduling.pods.pod_classes import PodClass
from tenon.scheduling.pods.topology import AreaRules, AreaSpread
from tenon.scheduling.pods.topology_groups import HOSTNAME, NodeFilter


class Placer:
    """The nodes of a batch, and the counts of pods in each domain."""

    def __init__(
        self,
        rooms: Sequence[Room],
        fleets: Sequence[Fleet],
        counts: TopologyCounts,
        domains: Domains,
        *,
        starts: GroupStarts | None = None,
        evenly: bool = False,
        in_turn: bool = False,
        expired: Expired = never,
    ) -> None:
        """Start without placed pods.

        ``evenly`` prefers new nodes with the fewest pods, in any domain. ``in_turn`` lets the classes begin with
        different domains.
        """
        self._starts = starts or GroupStarts(())
        self._reached: dict[tuple[PodClass, str, str], bool] = {}
        """Valid until more pods are placed."""
        self._evenly = evenly
        self._expired = expired
        self._rooms = [room for room in rooms if room.open]
        self._index = RoomIndex(self._rooms)
        self._fleets = fleets
        self._counts = counts
        self._choices = DomainCandidates(self._rooms, fleets, domains, in_turn=in_turn)
        counts.reaches = self._choices.holds_in
        self._forms: dict[tuple[PodClass, tuple[int, ...]], PodClass] = {}
        self._beside: dict[PodClass, PodClass] = {}
        self.handed_out: dict[int, int] = {}
        """Number of pods on existing nodes per class, by the identity of the class as it was grouped."""

    def place(self, pod_class: PodClass, count: int) -> int:
        """Place up to ``count`` pods, as the rules and the nodes allow. Return how many were placed."""
        placed_pods = 0
        while placed_pods < count and not self._expired():
            step_pods = self._step(pod_class, count - placed_pods)
            if not step_pods:
                break
            placed_pods += step_pods
        return placed_pods

    def forget_nodes(self) -> None:
        """Consider all nodes again, because they changed."""
        self._choices.forget_nodes()
        self._index.read()

    def missed_domains(self) -> frozenset[tuple[int, str]]:
        """(group, domain) of new nodes that a spread constraint counts but did not compare: they were added later.

        Such nodes are in domains that the constraint's own pods cannot use, but they count all the same.
        """
        places = self._places({spread.key for _, spread in self._counts.compared})
        return frozenset(
            (spread.group, value)
            for (_, spread), compared in self._counts.compared.items()
            for value in self._counted(spread, places[spread.key], places[spread.key].keys() - compared)
        )

    def forget_placed(self, waiting_classes: Sequence[PodClass]) -> None:
        """Let the spread of waiting pods ignore domains that only pods with a place could use."""
        spreads = {spread for form in waiting_classes if form.area is not None for spread in form.area.spreads}
        places = self._places({spread.key for spread in spreads})
        planned = frozenset(
            (spread.group, value)
            for spread in spreads
            for value in self._counted(spread, places[spread.key], places[spread.key])
        )
        self._counts.forget_placed(waiting_classes, planned)
        self.forget_nodes()

    def spare_changes(self) -> Iterator[list[tuple[PodClass, int, int]]]:
        """For each class whose pods may be divided among its domains in other ways: the pods in each domain, how many
        fewer may be there (as a negative number), and how many more.
        """
        for pod_class, spread in self._counts.compared:
            changes = self._counts.spare_changes(pod_class)
            domains = [(choice, choice.domain_values.get(spread.key)) for choice in self.choices(pod_class)]
            yield [
                (choice.pods, *changes[domain])
                for choice, domain in domains
                if choice.price < inf and domain is not None and domain in changes
            ]

    def _places(self, keys: Iterable[str]) -> dict[str, dict[str, list[_BinView]]]:
        """The new nodes by each value of each key, as far as it is settled."""
        places: dict[str, dict[str, list[_BinView]]] = {}
        for key in keys:
            options = places[key] = {}
            for fleet in self._fleets:
                for node in fleet.bins:
                    value = value_on_new_node(node, key)
                    if value is not None:
                        options.setdefault(value, []).append(_BinView(fleet, node))
        return places

    def _counted(
        self, spread: AreaSpread, nodes_in: Mapping[str, Sequence[_BinView]], values: Iterable[str]
    ) -> Iterator[str]:
        """Those of the values in which a spread constraint counts a new node."""
        nodes = self._counts.nodes_of(spread.group)
        return (value for value in values if any(view.counted_by(nodes) for view in nodes_in[value]))

    def _step(self, pod_class: PodClass, count: int) -> int:
        """Place some pods in the best domain that takes any. Return how many."""
        open_choices = []
        for candidate in self.choices(pod_class):
            choice, quota = candidate, self._counts.quota(pod_class, candidate.domain_values)
            if not quota and (daemons := self._counts.by_daemons(pod_class, candidate.domain_values)):
                choice, quota = (
                    candidate.beside(daemons),
                    self._counts.quota(pod_class, candidate.domain_values, met=daemons),
                )
            if quota:
                attraction = self._counts.attraction(pod_class, choice.domain_values)
                # a node whose domain stays open counts in no domain, so it is the last resort
                rank = choice.turn, choice.name
                open_choices.append((-len(choice.domain_values), attraction, choice.price, rank, quota, choice))
        open_choices.sort(key=lambda option: option[:4])
        followers = self._starts.followers(pod_class, self._counts.totals)
        if followers:
            placed_pods = self._start_group(pod_class, [option[5] for option in open_choices], followers)
            if placed_pods:
                return placed_pods
        steps = self._amounts(pod_class, open_choices)
        for where in (self._on_rooms, self._on_bins, self._on_new):
            if self._evenly and where == self._on_bins:
                if self._on_emptiest([option[5] for option in open_choices]):
                    return 1
                continue
            for option, amount in zip(open_choices, steps, strict=True):
                placed_pods = where(option[5], min(amount, count))
                if placed_pods:
                    return placed_pods
        return 0

    def _start_group(
        self, pod_class: PodClass, options: Sequence[DomainCandidate], followers: Sequence[Follower]
    ) -> int:
        """Place the first pod of a group where most of the pods that need it can follow. Return 1 if one was placed."""
        far = {id(choice): self._left_behind(choice, followers) for choice in options}
        lowest_count = min(far.values(), default=0)
        company = [follower for follower, key in followers if key == HOSTNAME] if pod_class.near else []
        if not company and all(pods == lowest_count for pods in far.values()):
            return 0
        best = [choice for choice in options if far[id(choice)] == lowest_count]
        for alongside in (company, []) if company else ([],):
            for where in (self._on_rooms, self._on_bins, self._on_new):
                for choice in best:
                    if where(choice, 1, alongside):
                        return 1
        return 0

    def _left_behind(self, choice: DomainCandidate, followers: Sequence[Follower]) -> int:
        """How many pods could not follow a pod into these domains."""
        pods = 0
        for follower, key in followers:
            # without settled domains, a pod that must share the node still needs some node that can take it
            shared = (
                {**choice.domain_values, HOSTNAME: ANY} if key == HOSTNAME else {key: choice.domain_values.get(key)}
            )
            if not all(self._reaches(follower, label, value) for label, value in shared.items()):
                pods += len(follower.pods)
        return pods

    def _reaches(self, pod_class: PodClass, key: str, value: str | None) -> bool:
        """Whether a node in this domain can take one of the pods, if their affinity allows it."""
        if value is None:
            return False
        is_reached = self._reached.get((pod_class, key, value))
        if is_reached is None:
            rules = replace(pod_class.area, affine=()) if pod_class.area is not None else AreaRules()
            is_reached = self._reached[pod_class, key, value] = any(
                choice.domain_values.get(key, value) == value
                and self._counts.quota(pod_class, choice.domain_values, rules)
                and (choice.price < inf or self._on_some_room(choice.pods))
                for choice in self.choices(pod_class)
            )
        return is_reached

    def _on_some_room(self, pod_class: PodClass) -> bool:
        """Whether an existing node has room for one of the pods."""
        return any(self._rooms[number].room_for(pod_class, 1) for number in self._index.candidates(pod_class))

    @staticmethod
    def _amounts(pod_class: PodClass, options: Sequence[tuple[object, ...]]) -> list[int]:
        """How many pods to place at once in each domain. With spread, up to the level of the next fuller domain."""
        quotas: list[int] = [option[4] for option in options]  # type: ignore[misc]
        if pod_class.area is None or not pod_class.area.spreads:
            return quotas
        levels: list[int] = [option[1][0] for option in options]  # type: ignore[index]
        return [
            min(quota, max(1, (levels[n + 1] if n + 1 < len(levels) else level) - level))
            for n, (quota, level) in enumerate(zip(quotas, levels, strict=True))
        ]

    def choices(self, pod_class: PodClass) -> list[DomainCandidate]:
        """The domains in which the pods may be placed."""
        return self._choices.of(pod_class)

    def has_too_many(self, pod_class: PodClass) -> bool:
        """Whether the pods' rules allow too many combinations of domains to try any."""
        return self._choices.has_too_many(pod_class)

    def _on_rooms(self, choice: DomainCandidate, count: int, company: Sequence[PodClass] = ()) -> int:
        if not self._rooms:
            return 0
        for form in self._joining(choice.pods):
            origin = id(form.origin)
            for number in self._index.candidates(form, 0 if form.near else choice.next_room):
                room = self._rooms[number]
                if not all(room.room_for(member, 1) for member in company):
                    continue
                placed_pods = room.take(form, self.handed_out.get(origin, 0), count)
                if placed_pods:
                    self._index.update(number)
                    self.handed_out[origin] = self.handed_out.get(origin, 0) + placed_pods
                    self._record(form, placed_pods, choice.domain_values, _RoomView(room))
                    if not form.near:
                        choice.next_room = number
                    return placed_pods
            if not form.near:
                choice.next_room = len(self._rooms)
        return 0

    def _on_bins(self, choice: DomainCandidate, count: int, company: Sequence[PodClass] = ()) -> int:
        if company:
            return 0  # a node that already has other pods may lack the room for all that must join
        for form in self._joining(choice.pods):
            for number, fleet in enumerate(self._fleets):
                if not form.tolerates(fleet.template.pool.taints):
                    continue
                start = 0 if form.near else choice.next_bin.get(number, 0)
                for position in fleet.candidates(form, start):
                    placed_pods = fleet.add(position, form, count)
                    if placed_pods:
                        self._record(form, placed_pods, choice.domain_values, _BinView(fleet, fleet.bins[position]))
                        if not form.near:
                            choice.next_bin[number] = position
                        return placed_pods
                if not form.near:
                    choice.next_bin[number] = len(fleet.bins)
        return 0

    def _on_emptiest(self, choices: Sequence[DomainCandidate]) -> bool:
        """Put one pod on the node with the fewest pods that takes it. Return whether such a node exists."""
        candidates = [
            (fleet.bins[position].pods, number, position, rank, form)
            for rank, choice in enumerate(choices)
            for form in self._joining(choice.pods)
            for number, fleet in enumerate(self._fleets)
            if form.tolerates(fleet.template.pool.taints)
            for position in fleet.candidates(form, 0)
        ]
        for _, number, position, rank, form in sorted(candidates, key=lambda option: option[:4]):
            fleet = self._fleets[number]
            if fleet.add(position, form, 1):
                self._record(form, 1, choices[rank].domain_values, _BinView(fleet, fleet.bins[position]))
                return True
        return False

    def _on_new(self, choice: DomainCandidate, count: int, company: Sequence[PodClass] = ()) -> int:
        first = self._starting(choice.pods)
        if first is None:
            return 0
        for fleet in self._fleets:
            form = shared_node(first, company, fleet) if company else first
            if form is not None and form.tolerates(fleet.template.pool.taints):
                node = fleet.open(form, 1 if self._evenly else count)
                if node is not None:
                    placed_pods = node.load[0][1]
                    self._record(form, placed_pods, choice.domain_values, _BinView(fleet, node))
                    return placed_pods
        return 0

    def _joining(self, pod_class: PodClass) -> list[PodClass]:
        """The forms in which pods may join a node that has pods: next to their group, or as the first of it."""
        if not pod_class.near:
            return [pod_class]
        forms = [self._form(pod_class, tuple(term.group for term in pod_class.near))]
        first = self._starting(pod_class)
        return [*forms, first] if first is not None else forms

    def _starting(self, pod_class: PodClass) -> PodClass | None:
        """The form in which pods may be the first of their group on a host: if there is no other pod, or next to the
        pod of a DaemonSet. None if neither is possible.
        """
        if not pod_class.near:
            return pod_class
        if self._counts.may_start_group(pod_class):
            return self._form(pod_class, ())
        daemons = frozenset(term.group for term in pod_class.near)
        if not daemons <= self._counts.of_daemons:
            return None
        beside = self._beside.get(pod_class)
        if beside is None:
            beside = self._beside[pod_class] = self._form(pod_class.beside_daemons(daemons), ())
        return beside

    def _form(self, pod_class: PodClass, needs: tuple[int, ...]) -> PodClass:
        form = self._forms.get((pod_class, needs))
        if form is None:
            host = replace(pod_class.host or HostRules(), needs=needs)
            form = self._forms[pod_class, needs] = replace(pod_class, host=host, base=pod_class.origin)
        return form

    def _record(self, pod_class: PodClass, pods: int, chosen_values: Mapping[str, str | None], place: _View) -> None:
        self._reached.clear()
        open_keys = [key for key in pod_class.area.keys if key not in chosen_values] if pod_class.area else []
        values = {key: value for key in open_keys if (value := place.value_of(key)) is not None}
        self._counts.record(pod_class, pods, {**values, **chosen_values}, place.open_to, place.counted_by)


class _View:
    """What the counts need to know of a node that received pods."""

    value_of: Callable[[str], str | None]
    """The domain of a key; None if the node has none, or may still get one of several."""
    open_to: Callable[[str], Iterable[str]]
    counted_by: Callable[[NodeFilter], bool]


class _RoomView(_View):
    """An existing node."""

    def __init__(self, room: Room) -> None:
        self.value_of = lambda key: value_on_node(room, key)
        self.open_to = lambda key: possible_on(room, key)
        self.counted_by = lambda nodes: counts_node(room, nodes)


class _BinView(_View):
    """A new node."""

    def __init__(self, fleet: Fleet, node: Bin) -> None:
        template = fleet.template
        self.value_of = lambda key: None if (value := value_on_new_node(node, key)) == ANY else value
        self.open_to = lambda key: launchable(template, node.state.requirements, key)
        self.counted_by = lambda nodes: (
            (nodes.terms is None or fleet.certain(node, nodes.terms))
            and (nodes.tolerations is None or untolerated(nodes.tolerations, template.pool.taints) is None)
        )
