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
from collections.abc import Iterable, Mapping, Sequence

from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.search.carried_out import carried_out
from tenon.disruption.search.consolidation_price import may_be_spot
from tenon.disruption.search.joined_moves import Joining
from tenon.disruption.search.move_planner import MoveBudgets, MoveTerms, Planner, has_rules, would_start
from tenon.disruption.search.moves import Move, independent_parts
from tenon.disruption.search.moves_together import stand_together
from tenon.disruption.search.price_estimate import PriceEstimate
from tenon.disruption.search.room_estimate import RoomEstimate
from tenon.disruption.search.turns import by_price_per_cost
from tenon.scheduling.model import Node

SET_SIZES = (16, 8, 4, 2, 1)
"""How many nodes to replace together, the largest sets first. A larger set leaves less room unused on its last node,
but is one command if its pods share new nodes."""
LARGEST_WITH_CHOICE = 2
"""How many nodes to replace together if new nodes must leave types open (``minValues``) and too few of them cost less
than one of the nodes. If several nodes leave, a type must cost less than each of them that it could stay as (DIS-37),
so large sets of such nodes hardly ever pay, and keep those that do from each other."""
FEW = 100
"""So many candidates are in sets of every size, because that takes little time, and sometimes a large set does pay."""
MAX_ROUNDS = 4
"""How often to look again at the cluster as the moves found so far will leave it."""
TOO_DEAR = 1.05
"""A node is replaced even if it is full if it costs more than this multiple of the cheapest type with as much room."""
LEAST_WASTE = 0.02
"""The part of its price that a node must waste by the estimate. Full nodes would spoil the sets that they are in."""
MAX_TRIES = 2
"""How often the engine may refuse a deletion that the estimate proposed before the estimate no longer counts."""


def search(
    model: ClusterModel, candidates: Sequence[str], allowances: Mapping[str, int], terms: MoveTerms
) -> list[Move]:
    """Return moves that can all be carried out.

    Args:
        model: the cluster.
        candidates: NodeClaims that may leave, best first (`by_price_per_cost`).
        allowances: how many nodes may leave, by NodePool.
        terms: what each move must meet.
    """
    moves = _Pass(model, candidates, allowances, terms).moves()
    for _ in range(MAX_ROUNDS):
        if not moves or terms.expired():
            break
        after = carried_out(model, [(move.claims, move.plan) for move in moves])
        moved_claims = {claim for move in moves for claim in move.claims}
        remaining = [*(claim for claim in candidates if claim not in moved_claims), *after.new]
        more = _Pass(
            after.model,
            by_price_per_cost(remaining, after.model.details),
            _less(allowances, moved_claims, terms),
            terms,
        )
        together = Joining(model, moves, allowances, terms).with_moves(more.moves(), after)
        if together is None:
            break
        moves = together
    return moves


def _less(allowances: Mapping[str, int], moved_claims: Iterable[str], terms: MoveTerms) -> dict[str, int]:
    taken_counts = Counter(terms.pool_of[claim] for claim in moved_claims)
    return {pool: count - taken_counts[pool] for pool, count in allowances.items()}


class _Pass:
    """One search on one state of the cluster."""

    def __init__(
        self, model: ClusterModel, candidates: Sequence[str], allowances: Mapping[str, int], terms: MoveTerms
    ) -> None:
        self._model = model
        self._details = model.details
        self._candidates = candidates
        self._terms = terms
        self._planner = Planner(model, terms)
        self._budget = MoveBudgets(dict(allowances), terms.pool_of)
        self._moves: list[Move] = []
        self._removed_claims: set[str] = set()
        self._settled: set[str] = set()
        """Nodes that take pods in a move that was found. Their pods are no longer those of the model."""
        nodes = self._planner.rescheduler.nodes()
        self._rooms = RoomEstimate(nodes, model.problem.pools, model.details)
        best_effort = model.problem.min_values_best_effort
        self._prices = PriceEstimate(self._rooms.names, model.problem.pools, best_effort=best_effort)
        without_spot = [pool for pool in model.problem.pools if not may_be_spot(pool)]
        self._prices_without_spot = PriceEstimate(self._rooms.names, without_spot, best_effort=best_effort)
        self._shared: dict[str, float] = {}
        """By candidate, the price of its pods' share of nodes, which each of several set sizes asks for."""
        self._with_choice: dict[str, float] = {}
        """By candidate, what `_price_with_choice` said since the last move."""
        self._for_small_sets = self._without_cheaper_choice(nodes)
        self._closed: frozenset[str] = self._too_dear(nodes)

    def moves(self) -> list[Move]:
        """Return all moves that the pass finds."""
        self._delete()
        self._replace()
        if self._closed:
            self._closed = frozenset()
            self._with_choice.clear()
            self._delete()
            self._replace()
        return self._moves

    def _too_dear(self, nodes: Iterable[Node]) -> frozenset[str]:
        """Return the names of candidates whose type costs too much even if the node is full.

        They will be replaced, so pods that move there now would soon move again. If the budgets do not let all of them
        leave now, they are used like others.
        """
        by_name = {node.name: node for node in nodes}
        too_dear = [
            claim
            for claim in self._candidates
            if (detail := self._details[claim]).price
            > TOO_DEAR * self._prices.of_room(by_name[detail.node].allocatable)
            and self._terms.rule.is_free(detail)
        ]
        if not MoveBudgets(dict(self._budget.remaining), self._terms.pool_of).take(too_dear):
            return frozenset()
        return frozenset(self._details[claim].node for claim in too_dear)

    def _without_cheaper_choice(self, nodes: Iterable[Node]) -> frozenset[str]:
        """Return the candidates that are too cheap for large sets, because new nodes must leave types open.

        Too few types that are as large cost less. If a NodePool asks for no ``minValues``, its nodes need not.
        """
        if len(self._candidates) <= FEW:
            return frozenset()
        by_name = {node.name: node for node in nodes}
        claims = set()
        for claim in self._candidates:
            detail = self._details[claim]
            prices = self._prices if self._terms.rule.is_free(detail) else self._prices_without_spot
            room = by_name[detail.node].allocatable
            if prices.has_only_min_values and prices.of_room_with_choice(room) >= detail.price:
                claims.add(claim)
        return frozenset(claims)

    def _remaining(self) -> list[str]:
        return [
            claim
            for claim in self._candidates
            if claim not in self._removed_claims and self._details[claim].node not in self._settled
        ]

    def _delete(self) -> None:
        tries: Counter[str] = Counter()
        while not self._terms.expired():
            worth = [claim for claim in self._remaining() if tries[claim] < MAX_TRIES and self._pays_alone(claim)]
            remaining_budget = MoveBudgets(dict(self._budget.remaining), self._terms.pool_of)
            proposed = self._rooms.removable(worth, self._settled, self._closed, remaining_budget.take_one)
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
        kept_claims = list(proposed)
        while kept_claims:
            plan = self._planner.rescheduler.simulate(
                kept_claims, buys=False, closed=self._closed, expired=self._terms.expired
            )
            moves = [
                move
                for part, own in independent_parts(plan, kept_claims, self._details)
                if (move := self._planner.priced(part, own)) is not None
            ]
            agreed = [claim for move in moves for claim in move.claims]
            if len(agreed) == len(kept_claims):
                return moves, [claim for claim in proposed if claim not in set(agreed)]
            kept_claims = agreed
        return [], list(proposed)

    def _replace(self) -> None:
        for size in SET_SIZES:
            for free in (True, False):
                self._replace_sets(self._by_waste(size, free=free), size)

    def _replace_sets(self, waiting: Sequence[str], size: int) -> None:
        while waiting and not self._terms.expired():
            batch, waiting = self._batch(waiting, size)
            if not batch:
                break
            moves = self._planner.moves_of(batch, self._closed)
            self._take(moves)
            if moves:
                waiting = [claim for claim in waiting if self._details[claim].node not in self._settled]

    def _by_waste(self, size: int, *, free: bool) -> list[str]:
        """Return the nodes for sets of this size that cost more than their pods need, most waste per cost first.

        Those that may be replaced only by on-demand nodes (``free`` is False) are in sets of their own.
        """
        prices = self._prices if free else self._prices_without_spot
        alone = size == 1
        sets_by_waste = []
        for claim in self._remaining():
            if size > LARGEST_WITH_CHOICE and claim in self._for_small_sets:
                continue
            detail = self._details[claim]
            if self._terms.rule.may_replace(detail) and self._terms.rule.is_free(detail) == free:
                needed = prices.alone(detail.pods) if alone else self._price_of_share(claim, prices)
                if alone and needed >= detail.price * (1 - LEAST_WASTE):
                    needed = prices.alone(self._rooms.left_over(claim, self._closed))
                most = detail.price * (1 - LEAST_WASTE)
                if needed < most and self._price_with_choice(claim, prices) < most:
                    sets_by_waste.append(((needed - detail.price) / detail.cost, claim))
        return [claim for _, claim in sorted(sets_by_waste)]

    def _price_of_share(self, claim: str, prices: PriceEstimate) -> float:
        """Return what `PriceEstimate.shared` says of a candidate's pods. A candidate always has the same ``prices``."""
        price = self._shared.get(claim)
        if price is None:
            price = self._shared[claim] = prices.shared(self._details[claim].pods)
        return price

    def _price_with_choice(self, claim: str, prices: PriceEstimate) -> float:
        """Return what the pods that fit on no other node cost if new nodes must leave types open to EC2; 0 if not."""
        if not prices.has_min_values:
            return 0.0
        price = self._with_choice.get(claim)
        if price is None:
            left_over = self._rooms.left_over(claim, self._closed)
            price = self._with_choice[claim] = prices.shared_with_choice(left_over)
        return price

    def _batch(self, waiting: Sequence[str], size: int) -> tuple[list[str], list[str]]:
        """Return the next nodes that the budgets allow together, and the others that wait."""
        remaining_budget = MoveBudgets(dict(self._budget.remaining), self._terms.pool_of)
        batch: list[str] = []
        later: list[str] = []
        for claim in waiting:
            if len(batch) < size and remaining_budget.take((claim,)):
                batch.append(claim)
            else:
                later.append(claim)
        return batch, later

    def _take(self, moves: Sequence[Move]) -> None:
        remaining_budget = MoveBudgets(dict(self._budget.remaining), self._terms.pool_of)
        within = self._starting(self._standing([move for move in moves if remaining_budget.take(move.claims)]))
        self._planner.accept(within)
        if within:
            self._with_choice.clear()
        for move in within:
            self._budget.take(move.claims)
            self._removed_claims.update(move.claims)
            self._settled.update(move.plan.placements)
            self._rooms.accept(move.claims, move.plan)
        self._moves += within

    def _standing(self, moves: Sequence[Move]) -> Sequence[Move]:
        """Return the moves that leave the pods of those found so far, and of each other, where they are planned."""
        if not moves or stand_together(self._model, [*self._moves, *moves]):
            return moves
        standing: list[Move] = []
        for move in moves:
            if stand_together(self._model, [*self._moves, *standing, move]):
                standing.append(move)
        return standing

    def _starting(self, moves: Sequence[Move]) -> list[Move]:
        """Return the moves whose commands would start if nothing changes until then.

        Validation plans each of them alone, and with the nodes open that a pass closes. With rules between pods, such
        a plan may need other new nodes each time, so the command would be refused without end.
        """
        starting: list[Move] = []
        for move in moves:
            others = [other for other in (*self._moves, *moves) if other is not move]
            if not has_rules(move.plan) or would_start(self._model, self._terms, [move], others):
                starting.append(move)
        return starting
