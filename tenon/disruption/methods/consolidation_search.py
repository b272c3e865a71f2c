"""Searches for sets of nodes whose pods run cheaper elsewhere.

The search alternates between an estimate, which is fast and knows only resources, taints and node affinity, and the
scheduling engine, which knows every rule and is asked about whole sets of nodes:

1. Nodes whose pods fit on the nodes that remain. The estimate proposes a set, the engine says which of it can go.
2. Nodes that cost more than their pods need, several at a time: new nodes for all their pods together cost less than
   new nodes for the pods of each.
3. The same again on the cluster as it will be then. What it finds is joined with the moves that made it possible, so
   that carrying out the decision does not lead to another one that moves the same pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tenon.disruption.carried_out import CarriedOut, carried_out
from tenon.disruption.methods.consolidation_price import LEAST_SAVING, PriceRule, allows
from tenon.disruption.methods.moves import Move, independent_parts, joined
from tenon.disruption.methods.room_estimate import PriceEstimate, RoomEstimate
from tenon.disruption.model import ClusterModel, NodeDetail
from tenon.disruption.rescheduling import Rescheduler
from tenon.scheduling.burstable import is_burstable
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.model import Node, Plan, Pool
from tenon.scheduling.type_table import TypeTables

SET_SIZES = (16, 8, 4, 2, 1)
"""How many nodes to replace together, the largest sets first. A larger set leaves less room unused on its last node,
but is one command if its pods share new nodes."""
MAX_ROUNDS = 4
"""How often to look again at the cluster as the moves found so far will leave it."""
MAX_JOINED = 32
"""How many nodes moves may have together if they are joined. One command should not undo much if it fails."""
MAX_STAYING = 8
"""How many nodes a joined move may have for the search to try what each of them saves if it stays."""
TOO_DEAR = 1.05
"""A node is replaced even if it is full if it costs more than this multiple of the cheapest type with as much room."""
LEAST_WASTE = 0.02
"""The part of its price that a node must waste by the estimate. Full nodes would spoil the sets that they are in."""
MAX_TRIES = 2
"""How often the engine may refuse a deletion that the estimate proposed before the estimate no longer counts."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a move must meet, apart from having a place for each pod."""

    rule: PriceRule
    approves: Callable[[Mapping[str, NodeDetail], float], bool]
    """Whether the policies of the nodes' pools approve a move that saves so much."""
    pool_of: Mapping[str, str]
    """NodePool by NodeClaim."""
    closed: frozenset[str] = frozenset()
    """Names of Nodes that take no pods."""
    expired: Expired = never
    tables: TypeTables = field(default_factory=TypeTables)
    """The index of the instance types, which all simulations share."""


def search(model: ClusterModel, candidates: Sequence[str], left: Mapping[str, int], terms: Terms) -> list[Move]:
    """Return moves that can all be carried out.

    Args:
        model: the cluster.
        candidates: NodeClaims that may leave, best first (`by_price_per_cost`).
        left: how many nodes may leave, by NodePool.
        terms: what each move must meet.
    """
    moves = _Look(model, candidates, left, terms).moves()
    for _ in range(MAX_ROUNDS):
        if not moves or terms.expired():
            break
        after = carried_out(model, [(move.claims, move.plan) for move in moves])
        gone = {claim for move in moves for claim in move.claims}
        known = [*(claim for claim in candidates if claim not in gone), *after.new]
        more = _Look(after.model, by_price_per_cost(known, after.model.details), _less(left, gone, terms), terms)
        together = _Joining(model, moves, left, terms).with_moves(more.moves(), after)
        if together is None:
            break
        moves = together
    return moves


def by_price_per_cost(claims: Iterable[str], details: Mapping[str, NodeDetail]) -> list[str]:
    """Sort NodeClaims by price per rescheduling cost, highest first, then by name (DIS-24)."""
    return sorted(claims, key=lambda claim: (-details[claim].price / details[claim].cost, claim))


def _less(left: Mapping[str, int], gone: Iterable[str], terms: Terms) -> dict[str, int]:
    taken = Counter(terms.pool_of[claim] for claim in gone)
    return {pool: count - taken[pool] for pool, count in left.items()}


@dataclass
class _Budget:
    """How many more nodes may leave, by pool. Nodes that a move of this search launches are in no pool's budget."""

    left: dict[str, int]
    pool_of: Mapping[str, str]

    def take_one(self, claim: str) -> bool:
        """Take one node; False if its pool's budget has none."""
        return self.take((claim,))

    def take(self, claims: Iterable[str]) -> bool:
        """Take nodes from their pools' budgets; False, with nothing taken, if one has not enough."""
        asked = Counter(self.pool_of[claim] for claim in claims if claim in self.pool_of)
        if any(self.left.get(pool, 0) < count for pool, count in asked.items()):
            return False
        for pool, count in asked.items():
            self.left[pool] -= count
        return True


@dataclass
class _Planner:
    """The cluster with the moves accepted so far, and the engine's plans on it."""

    model: ClusterModel
    terms: Terms
    rescheduler: Rescheduler = field(init=False)

    def __post_init__(self) -> None:
        self.rescheduler = Rescheduler(self.model, self.terms.closed, self.terms.tables)

    def moves_of(self, claims: Sequence[str], closed: Collection[str] = frozenset()) -> list[Move]:
        """Return the independent moves in the engine's plan for these nodes that meet the terms. Accepts none."""
        kept = list(claims)
        while kept:
            plan = self.rescheduler.simulate(kept, closed=closed, expired=self.terms.expired)
            parts = independent_parts(plan, kept, self.model.details)
            found = [move for part, own in parts if (move := self.priced(part, own)) is not None]
            staying = sum(len(move.claims) for move in found)
            if staying == len(kept) or not _has_rules(plan):
                return found
            # rules between pods were judged with all of these nodes gone
            kept = [claim for move in found for claim in move.claims]
        return []

    def priced(self, claims: tuple[str, ...], plan: Plan) -> Move | None:
        """Return the plan as a move; None if it does not meet the terms."""
        leaving = {claim: self.model.details[claim] for claim in claims}
        bill = self.terms.rule.bill(list(leaving.values()), plan.claims)
        if bill is None or not self.terms.approves(leaving, bill.expected):
            return None
        more_nodes = len(bill.replacements) - len(claims)
        if bill.expected <= self.model.problem.node_charge * more_nodes:
            return None
        return Move(claims, Plan(bill.replacements, plan.placements), bill.saving, bill.expected)

    def accept(self, moves: Sequence[Move]) -> None:
        """Change the cluster as the moves say."""
        if moves:
            self.rescheduler.accept([claim for move in moves for claim in move.claims], joined([m.plan for m in moves]))


class _Look:
    """One search on one state of the cluster."""

    def __init__(self, model: ClusterModel, candidates: Sequence[str], left: Mapping[str, int], terms: Terms) -> None:
        self._details = model.details
        self._candidates = candidates
        self._terms = terms
        self._planner = _Planner(model, terms)
        self._budget = _Budget(dict(left), terms.pool_of)
        self._found: list[Move] = []
        self._gone: set[str] = set()
        self._settled: set[str] = set()
        """Nodes that take pods in a move that was found. Their pods are no longer those of the model."""
        nodes = self._planner.rescheduler.nodes()
        self._rooms = RoomEstimate(nodes, model.problem.pools, model.details)
        self._prices = PriceEstimate(self._rooms.names, _sold(model.problem.pools))
        self._closed: frozenset[str] = self._too_dear(nodes)

    def moves(self) -> list[Move]:
        """Return all moves that the look finds."""
        self._delete()
        self._replace()
        if self._closed:
            self._closed = frozenset()
            self._delete()
            self._replace()
        return self._found

    def _too_dear(self, nodes: Iterable[Node]) -> frozenset[str]:
        """Return the names of candidates whose type costs too much even if the node is full.

        They will be replaced, so pods that move there now would soon move again. If the budgets do not let all of them
        leave now, they are used like others.
        """
        by_name = {node.name: node for node in nodes}
        found = [
            claim
            for claim in self._candidates
            if (detail := self._details[claim]).price
            > TOO_DEAR * self._prices.of_room(by_name[detail.node].allocatable)
            and self._terms.rule.may_replace(detail)
        ]
        if not _Budget(dict(self._budget.left), self._terms.pool_of).take(found):
            return frozenset()
        return frozenset(self._details[claim].node for claim in found)

    def _remaining(self) -> list[str]:
        return [
            claim
            for claim in self._candidates
            if claim not in self._gone and self._details[claim].node not in self._settled
        ]

    def _delete(self) -> None:
        tries: Counter[str] = Counter()
        while not self._terms.expired():
            worth = [claim for claim in self._remaining() if tries[claim] < MAX_TRIES and self._pays_alone(claim)]
            left = _Budget(dict(self._budget.left), self._terms.pool_of)
            proposed = self._rooms.removable(worth, self._settled, self._closed, left.take_one)
            agreed, refused = self._deletions(proposed)
            tries.update(refused)
            self._take(agreed)
            if not refused:
                return

    def _pays_alone(self, claim: str) -> bool:
        detail = self._details[claim]
        return self._terms.rule.bill([detail], ()) is not None and self._terms.approves({claim: detail}, detail.price)

    def _deletions(self, proposed: Sequence[str]) -> tuple[list[Move], list[str]]:
        """Return what the engine agrees to of a proposed set of deletions, and the nodes that it refuses."""
        kept = list(proposed)
        while kept:
            plan = self._planner.rescheduler.simulate(
                kept, buys=False, closed=self._closed, expired=self._terms.expired
            )
            parts = independent_parts(plan, kept, self._details)
            if len(parts) == len(kept):
                found = [move for part, own in parts if (move := self._planner.priced(part, own)) is not None]
                agreed = {claim for move in found for claim in move.claims}
                return found, [claim for claim in proposed if claim not in agreed]
            kept = [claim for part, _ in parts for claim in part]
        return [], list(proposed)

    def _replace(self) -> None:
        for size in SET_SIZES:
            waiting = self._by_waste(alone=size == 1)
            while waiting and not self._terms.expired():
                batch, waiting = self._batch(waiting, size)
                if not batch:
                    break
                found = self._planner.moves_of(batch, self._closed)
                self._take(found)
                if found:
                    waiting = [claim for claim in waiting if self._details[claim].node not in self._settled]

    def _by_waste(self, *, alone: bool) -> list[str]:
        """Return the nodes that cost more than their pods need, by what they waste per rescheduling cost."""
        found = []
        for claim in self._remaining():
            detail = self._details[claim]
            if self._terms.rule.may_replace(detail):
                needed = self._prices.alone(detail.pods) if alone else self._prices.shared(detail.pods)
                if needed < detail.price * (1 - LEAST_WASTE):
                    found.append(((needed - detail.price) / detail.cost, claim))
        return [claim for _, claim in sorted(found)]

    def _batch(self, waiting: Sequence[str], size: int) -> tuple[list[str], list[str]]:
        """Return the next nodes that the budgets allow together, and the others that wait."""
        left = _Budget(dict(self._budget.left), self._terms.pool_of)
        batch: list[str] = []
        later: list[str] = []
        for claim in waiting:
            if len(batch) < size and left.take((claim,)):
                batch.append(claim)
            else:
                later.append(claim)
        return batch, later

    def _take(self, moves: Sequence[Move]) -> None:
        within = [move for move in moves if self._budget.take(move.claims)]
        self._planner.accept(within)
        for move in within:
            self._gone.update(move.claims)
            self._settled.update(move.plan.placements)
            self._rooms.accept(move.claims, move.plan)
        self._found += within


class _Joining:
    """Joins moves with those that they make possible."""

    def __init__(self, model: ClusterModel, moves: Sequence[Move], left: Mapping[str, int], terms: Terms) -> None:
        self._model = model
        self._moves: dict[int, Move] = dict(enumerate(moves))
        self._next = len(moves)
        self._left = left
        self._terms = terms

    def with_moves(self, more: Iterable[Move], after: CarriedOut) -> list[Move] | None:
        """Return the moves with those that a look at the cluster after them found; None if none can be joined."""
        hosts: dict[str, set[int]] = {}
        for position, move in self._moves.items():
            for node in move.plan.placements:
                hosts.setdefault(node, set()).add(position)
        changed = False
        for move in more:
            touched = {after.new[name] for name in (*move.claims, *move.plan.placements) if name in after.new}
            for claim in move.claims:
                touched |= hosts.get(after.model.details[claim].node, set())
            if touched <= self._moves.keys() and not self._terms.expired():
                changed = self._join(move, touched, after.new) or changed
        return list(self._moves.values()) if changed else None

    def _join(self, move: Move, touched: Collection[int], new: Mapping[str, int]) -> bool:
        own = [claim for claim in move.claims if claim not in new]
        before = [self._moves[position] for position in sorted(touched)]
        if before and len(own) + sum(len(each.claims) for each in before) > MAX_JOINED:
            return False
        others = [other for position, other in self._moves.items() if position not in touched]
        planner = _Planner(self._model, self._terms)
        planner.accept(others)
        every = [*own, *(claim for each in before for claim in each.claims)]
        found = self._best(planner, every, others)
        if self._worth(found) <= self._worth(before) + LEAST_SAVING:
            return False
        for position in touched:
            del self._moves[position]
        for each in found:
            self._moves[self._next] = each
            self._next += 1
        return True

    def _best(self, planner: _Planner, claims: Sequence[str], others: Sequence[Move]) -> list[Move]:
        """Return the best moves of these nodes, of which one, or all of a type, may stay if the others need it."""
        attempts = [list(claims)]
        if 1 < len(claims) <= MAX_STAYING:
            details = self._model.details
            attempts += [[claim for claim in claims if claim != staying] for staying in claims]
            attempts += [
                [claim for claim in claims if details[claim].instance_type != kind]
                for kind in sorted({details[claim].instance_type for claim in claims})
            ]
        best: list[Move] = []
        for attempt in attempts:
            found = planner.moves_of(attempt)
            budget = _Budget(dict(self._left), self._terms.pool_of)
            affordable = budget.take(claim for each in (*others, *found) for claim in each.claims)
            if affordable and self._worth(found) > self._worth(best) + LEAST_SAVING:
                best = found
        return best

    def _worth(self, moves: Iterable[Move]) -> float:
        charge = self._model.problem.node_charge
        return sum(move.expected + charge * (len(move.claims) - len(move.plan.claims)) for move in moves)


def _has_rules(plan: Plan) -> bool:
    return any(pod.rules for claim in plan.claims for pod in claim.pods) or any(
        pod.rules for pods in plan.placements.values() for pod in pods
    )


def _sold(pools: Iterable[Pool]) -> Iterable[tuple[Mapping[str, int], float]]:
    """Return the room and the lowest price of each type in each pool that the engine fills with steady load."""
    for pool in pools:
        for kind in pool.instance_types:
            if is_burstable(kind) or not pool.requirements.intersects(kind.requirements):
                continue
            if prices := [offering.price for offering in kind.offerings if allows(pool.requirements, offering)]:
                yield kind.allocatable, min(prices)
