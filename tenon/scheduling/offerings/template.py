"""What a NodePool can launch, as node states, and how each kind of pod narrows a state.

A state is a set of requirements that a new node of the pool may end up with, plus what follows from them: the types
that are left, their prices, and the overhead of DaemonSets. Nodes share a few states, so each is computed once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from math import inf

from tenon.apis import labels
from tenon.kube.host_ports import HostPort, first_conflict
from tenon.kube.requirements import IN, Requirement, Requirements
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import NODE_CHARGE, OFFERING_KEYS, Pool
from tenon.scheduling.offerings import burstable
from tenon.scheduling.offerings.daemons import (
    Daemon,
    deciding_labels,
    may_run_nowhere,
    overhead_groups,
    types_with,
    types_without,
)
from tenon.scheduling.offerings.label_values import possible
from tenon.scheduling.offerings.limits import Limits
from tenon.scheduling.offerings.type_table import Market, OrderedBlock, TypeTable, members
from tenon.scheduling.pods.blast_radius import BlastRadius
from tenon.scheduling.pods.pod_classes import Amounts, PodClass

SPOT_FLEXIBILITY = 15
"""Number of types that a spot node should leave open, if that many fit. Fewer types make interruptions more likely."""

BLOCK = 32
"""How many types are passed over at once."""
MAX_VARIANTS = 64
"""How many variants of a state to try in which other DaemonSets, or fewer of them, run next to a pod."""


class State:
    """A node of the template with these requirements. Only `Template.state` builds it."""

    __slots__ = (
        "_diverse", "_order", "_targets", "apart", "daemons", "groups", "market", "menus", "requirements", "successors",
        "types",
    )  # fmt: skip

    def __init__(self, requirements: Requirements, types: int, market: Market) -> None:
        self.requirements = requirements
        self.types = types
        self.market = market
        self.daemons: list[tuple[Daemon, int]] = []
        self.groups: list[tuple[int, Amounts]] = []
        self.successors: dict[tuple[Requirements, ...], tuple[State, ...]] = {}
        self.apart: dict[PodClass, tuple[State, ...]] = {}
        self._order: tuple[OrderedBlock, ...] | None = None
        self._targets: tuple[int, ...] | None = None
        self._diverse: dict[int, bool] = {}
        self.menus: dict[int, object] = {}
        """By the types that are permitted, the types as arrays (`TypeCandidates.of`)."""


class Template:
    """A NodePool with an index of its instance types and a cache of its states."""

    def __init__(
        self,
        pool: Pool,
        daemons: Iterable[Daemon],
        table: TypeTable,
        best_effort: bool = False,
        *,
        node_charge: float = NODE_CHARGE,
        shares: BlastRadius | None = None,
        expired: Expired = never,
    ) -> None:
        """Take a pool and the index of its types. DaemonSets that do not tolerate the pool's taints are ignored.

        With ``best_effort``, the pool's ``minValues`` are preferences, not rules.
        """
        self.pool = pool
        self.expired = expired
        """Whether packing must stop and return what it has."""
        self.node_charge = node_charge
        self.shares = shares or BlastRadius()
        self.requirements = requirements = pool.of_nodes
        self.contradiction = next((key for key in sorted(requirements) if requirements[key].contradicts()), "")
        """A label for which the pool's own requirements and labels leave no value; empty if there is none."""
        self.table = table
        self.known_labels = table.known_labels
        """Labels that a pod may require although the pool does not define them."""
        self.limits = Limits(pool, self.table)
        self.burstable = sum(1 << n for n, t in enumerate(self.table.types) if burstable.is_burstable(t))
        self.wished = {key: r.min_values for key, r in requirements.items() if r.min_values}
        """The pool's ``minValues``, by label."""
        self.least = {} if best_effort else self.wished
        """The ``minValues`` that every node must keep."""
        self._daemons = [daemon for daemon in daemons if daemon.pod_class.tolerates(pool.taints)]
        self._within_limits = self.limits.allowed(self.table.every)
        self._deciding = deciding_labels(self._daemons, requirements, table)
        self.daemons_are_settled = not self._deciding
        """Whether the same DaemonSets run on a node of each type, wherever and however it is bought."""
        self.pods_may_avoid_daemons = may_run_nowhere(self._daemons, requirements, table)
        self._states: dict[Requirements, State] = {}
        self._prices_of_one: dict[tuple[tuple[Requirements, ...], Amounts], float] = {}
        self.start = self.state(requirements)

    def state(self, requirements: Requirements) -> State:
        """Return the state of a node with these requirements, which must include the template's."""
        state = self._states.get(requirements)
        if state is None:
            state = State(requirements, self.types_for(requirements), self.table.market(requirements))
            self._states[requirements] = state
            state.daemons, state.groups = overhead_groups(
                self, requirements, self._daemons, (0,) * len(self.table.names)
            )
        return state

    def types_for(self, requirements: Requirements) -> int:
        """Types on sale that satisfy the requirements; 0 if the pool contradicts itself."""
        if self.contradiction:
            return 0
        return self.table.allowing(requirements) & self.table.market(requirements).types

    def offers_for(self, requirements: Requirements) -> dict[int, int]:
        """Map each offer (a zone and capacity type) to the types on it that satisfy the requirements."""
        if self.contradiction:
            return {}
        types = self.table.allowing(requirements)
        return {
            offer: offer_types & types
            for offer, offer_types in self.table.market(requirements).by_offer.items()
            if offer_types & types
        }

    def narrow(self, requirements: Requirements, term: Requirements) -> Requirements | None:
        """Return a node's requirements after a pod with this term is added; None if they contradict each other.

        The pool itself must define a label: a label does not exist because other pods ask for it. A term that only
        excludes values of an undefined label matches every node of the pool and changes nothing.
        """
        if not self.requirements.allow(term, self.known_labels):
            return None
        telling = [possible(r) for key, r in term.items() if key in self.requirements or key in self.known_labels]
        narrowed = requirements.with_(Requirements.of(*telling))
        return None if any(narrowed[r.key].contradicts() for r in telling) else narrowed

    def successors(self, state: State, pod_class: PodClass) -> tuple[State, ...]:
        """Return the states that a node may reach by taking a pod of the class, one per usable term, in their order."""
        states = state.successors.get(pod_class.terms)
        if states is None:
            narrowed_states: list[State] = []
            for term in pod_class.terms:
                narrowed = self.narrow(state.requirements, term)
                if narrowed is None:
                    continue
                after = state if narrowed == state.requirements else self.state(narrowed)
                if after.types and after not in narrowed_states:
                    narrowed_states.append(after)
            states = state.successors[pod_class.terms] = tuple(narrowed_states)
        if pod_class.daemons is None:
            return self._with_daemon_variants(state, states, pod_class) if self._deciding else states
        return self._with_daemon_rules(state, states, pod_class)

    def _with_daemon_rules(self, state: State, states: tuple[State, ...], pod_class: PodClass) -> tuple[State, ...]:
        """Return the successors with only the types that have the DaemonSets which the pods need, and none to avoid."""
        obeying_states = state.apart.get(pod_class)
        if obeying_states is None:
            settled = (
                (variant for candidate in states for variant in self._label_variants(candidate))
                if self._deciding
                else ()
            )
            obeying = (self._obeying(candidate, pod_class) for candidate in (*states, *settled))
            obeying_states = state.apart[pod_class] = tuple(
                dict.fromkeys(candidate for candidate in obeying if candidate is not None)
            )
        return obeying_states

    def _obeying(self, state: State, pod_class: PodClass) -> State | None:
        rules = pod_class.daemons
        assert rules is not None
        types = state.types & types_without(state.daemons, rules.avoided)
        for group in rules.needed:
            types &= types_with(self, state.requirements, (daemon for daemon, _ in state.daemons), group)
        if types == state.types or not types:
            return state if types else None
        names = [self.table.types[number].name for number in members(types)]
        return self.state(state.requirements.with_(Requirements.of(Requirement.new(labels.INSTANCE_TYPE, IN, names))))

    def _with_daemon_variants(self, state: State, states: tuple[State, ...], pod_class: PodClass) -> tuple[State, ...]:
        """Return the successors, preceded by variants in which fewer DaemonSets take room from the pod.

        A variant is added if a new node costs less for the pod there, or if no plain successor holds the pod.
        """
        variants = state.apart.get(pod_class)
        if variants is None:
            variants = states
            lowest_price = min((self._price_alone(after, pod_class) for after in states), default=inf)
            if state is self.start or lowest_price == inf:
                settled = [after for candidate in states for after in self._label_variants(candidate)]
                prices = [(self._price_alone(after, pod_class), after) for after in settled]
                better = sorted((pair for pair in prices if pair[0] < lowest_price), key=lambda pair: pair[0])
                variants = (*(after for _, after in better), *states)
            state.apart[pod_class] = variants
        return variants

    def price_of_one(self, pod_class: PodClass) -> float:
        """Price of the cheapest new node with room for one pod of the class; infinite if no type has it."""
        if pod_class.daemons is not None or self._deciding:
            return self._price_of_one(pod_class)
        key = (pod_class.terms, pod_class.amounts)
        price = self._prices_of_one.get(key)
        if price is None:
            price = self._prices_of_one[key] = self._price_of_one(pod_class)
        return price

    def _price_of_one(self, pod_class: PodClass) -> float:
        fitting = ((state, self.fitting(state, pod_class.amounts)) for state in self.successors(self.start, pod_class))
        return min((self.price(state, types) for state, types in fitting if types), default=inf)

    def _price_alone(self, state: State, pod_class: PodClass) -> float:
        """Price of the cheapest node in this state that holds one pod of the class; infinite if no type does."""
        types = self._holding(state, pod_class)
        return self.price(state, types) if types else inf

    def _label_variants(self, state: State) -> Iterator[State]:
        """Yield variants of the state with one value for each open label that DaemonSets select on.

        With a single such label, a variant keeps all values that attract the same DaemonSets.
        """
        values = [sorted(self._open_values(state, key)) for key in self._deciding]
        values_by_daemons: dict[tuple[str, ...], list[str]] = {}
        for combination in islice(product(*values), MAX_VARIANTS):
            settled = self._with(state, *((value,) for value in combination))
            if len(values) > 1:
                yield settled
            else:
                values_by_daemons.setdefault(tuple(daemon.name for daemon, _ in settled.daemons), []).extend(
                    combination
                )
        for together in values_by_daemons.values():
            yield self._with(state, together)

    def _with(self, state: State, *values: Sequence[str]) -> State:
        """The state with these values for the labels that DaemonSets select on."""
        value_requirements = (
            Requirement.new(key, IN, label_values) for key, label_values in zip(self._deciding, values, strict=True)
        )
        return self.state(state.requirements.with_(Requirements.of(*value_requirements)))

    def _open_values(self, state: State, key: str) -> Iterable[str]:
        if key in OFFERING_KEYS:
            return {self.table.offer_value(offer, key) for offer in self.offers_for(state.requirements)}
        return state.requirements[key].members

    def _holding(self, state: State, pod_class: PodClass) -> int:
        """Types within the pool's limits that hold a single pod of the class."""
        fitting_types = self.fitting(state, pod_class.amounts) & ~self.blocked(state, pod_class.ports)
        return fitting_types & self._within_limits

    def fitting(self, state: State, amounts: Sequence[int]) -> int:
        """Types of the state with room for these amounts and their DaemonSets, in whichever zone they are bought."""
        fitting_types = state.types
        holding = self.table.holding
        for types, overhead in state.groups:
            group_types = group_fitting = types & fitting_types
            for number, amount in enumerate(amounts):
                needed = amount + overhead[number]
                if needed > 0:
                    group_fitting &= holding(number, needed)
                    if not group_fitting:
                        break
            fitting_types ^= group_types ^ group_fitting
        return fitting_types

    def blocked(self, state: State, ports: Sequence[HostPort]) -> int:
        """Types on which a DaemonSet uses one of the host ports."""
        blocked_types = 0
        for daemon, types in state.daemons:
            if daemon.pod_class.ports and first_conflict(ports, daemon.pod_class.ports) is not None:
                blocked_types |= types
        return blocked_types

    def diverse(self, state: State, types: int) -> bool:
        """Whether the types keep as many distinct values as the pool's ``minValues`` require."""
        is_diverse = state._diverse.get(types)
        if is_diverse is None:
            is_diverse = state._diverse[types] = all(
                self.offered(state, types, key) >= min_values for key, min_values in self.least.items()
            )
        return is_diverse

    def offered(self, state: State, types: int, key: str) -> int:
        """How many distinct values of a label the types offer to a node in this state.

        A list of the pool for a label that no type has counts nothing: the launch would refuse it (AWS-026).
        """
        if key in OFFERING_KEYS:
            return self.table.zones_of(key, types, state.requirements)
        return self.table.values_of(key, types, state.requirements[key])

    def by_price(self, state: State, types: int) -> list[int]:
        """The types by the price of their best offering, cheapest first. Ties are broken by name."""
        return list(self._ordered(state, types))

    def cheapest(self, state: State, types: int) -> int:
        """The cheapest of the types."""
        return next(self._ordered(state, types))

    def price(self, state: State, types: int) -> float:
        """The price of the cheapest of the types."""
        return state.market.best[self.cheapest(state, types)][0]

    def sizing_price(self, state: State, types: int, cpu: int) -> float:
        """Price of a node for ``cpu`` millicores of steady load. Burstable types must cover it with their baseline."""
        for number in self._ordered(state, types):
            if not self.burstable >> number & 1 or cpu <= burstable.baseline_millicores(self.table.types[number]):
                return state.market.best[number][0]
        return self.price(state, types)

    def _ordered(self, state: State, types: int) -> Iterator[int]:
        """Yield the types by price. Blocks without any of them are passed over at once."""
        for block, numbers in self._order(state):
            if block & types:
                for number in numbers:
                    if types >> number & 1:
                        yield number

    def _order(self, state: State) -> tuple[OrderedBlock, ...]:
        if state._order is None:
            orders = state.market.orders
            if state.types not in orders:
                ordered = sorted(members(state.types), key=state.market.best.__getitem__)
                blocks = (tuple(ordered[first : first + BLOCK]) for first in range(0, len(ordered), BLOCK))
                orders[state.types] = tuple((sum(1 << number for number in block), block) for block in blocks)
            state._order = orders[state.types]
        return state._order

    def targets(self, state: State) -> tuple[int, ...]:
        """Types worth filling, cheapest first: a type is left out if a cheaper one has as much of everything."""
        if state._targets is None:
            steady = state.types & ~self.burstable or state.types
            targets = state.market.targets
            if steady not in targets:
                targets[steady] = self._find_targets(steady, state.market)
            state._targets = targets[steady]
        return state._targets

    def _find_targets(self, types: int, market: Market) -> tuple[int, ...]:
        room, best = self.table.room, market.best
        ordered = sorted(members(types), key=lambda n: (best[n][0], [-amount for amount in room[n]], n))
        targets: list[int] = []
        cheaper = 0
        for number in ordered:
            better = cheaper
            for resource, amount in enumerate(room[number]):
                better &= self.table.holding(resource, amount)
            if not better:
                targets.append(number)
                cheaper |= 1 << number
        return tuple(targets)
