"""Joins moves with those that they make possible, so that each pod moves once and one decision is the last one.

A pass over the cluster after some moves finds more: room on a new node, a node that now takes part in a cheaper set.
The moves of both are put together as they are: nodes that leave in either leave, and each pod goes where it is in the
end. If that breaks a rule about a single move, such as its price, the engine plans all these nodes again. It also does
if its own plan for them needs other new nodes, because the validation of the command (DIS-46) would refuse the move.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tenon.disruption.cluster_model import ClusterModel
from tenon.disruption.search.carried_out import CarriedOut
from tenon.disruption.search.consolidation_price import LEAST_SAVING
from tenon.disruption.search.move_planner import MoveBudgets, MoveTerms, Planner, has_rules, would_start
from tenon.disruption.search.moves import Move, independent_parts
from tenon.disruption.search.moves_together import stand_together
from tenon.kube.pod import Pod
from tenon.scheduling.model import Plan, PlannedClaim

MAX_JOINED = 32
"""How many nodes a move may have if it is joined of several. One command should not undo much if it fails."""
MAX_STAYING = 8
"""How many nodes a joined move may have for the search to try what each of them saves if it stays."""


class Joining:
    """The moves that were found so far. They are independent of each other."""

    def __init__(
        self, model: ClusterModel, moves: Sequence[Move], allowances: Mapping[str, int], terms: MoveTerms
    ) -> None:
        """Start with moves on the cluster of the model; ``allowances``: how many nodes may leave, by NodePool."""
        self._model = model
        self._moves: dict[int, Move] = dict(enumerate(moves))
        self._next = len(moves)
        self._allowances = allowances
        self._terms = terms

    def with_moves(self, more: Iterable[Move], after: CarriedOut) -> list[Move] | None:
        """Return the moves with those that a pass over the cluster after them found; None if none can be joined."""
        limited = any(pool.limits for pool in self._model.problem.pools)
        first_new = self._next
        changed = left_out = planned_again = False
        for move in more:
            touched = {after.new[name] for name in (*move.claims, *move.plan.placements) if name in after.new}
            touched |= self._hosting({after.model.details[claim].node for claim in move.claims})
            joined = None
            if touched <= self._moves.keys() and not self._terms.expired():
                # it was planned as if those before it in the same pass were made as they are
                needs_others = left_out and (has_rules(move.plan) or (limited and bool(move.plan.claims)))
                as_seen = all(position < first_new for position in touched)
                if as_seen and not (planned_again or needs_others):
                    joined = self._put_together(move, touched, after)
                if joined is None and (joined := self._planned_again(move, touched, after.new)) is not None:
                    planned_again = True
            if joined is None:
                left_out = True
            else:
                self._replace(touched, joined)
                changed = True
        return list(self._moves.values()) if changed else None

    def _others(self, touched: Collection[int]) -> list[Move]:
        """Return the moves except those at these positions."""
        return [move for position, move in self._moves.items() if position not in touched]

    def _hosting(self, nodes: Collection[str]) -> set[int]:
        """Return the positions of the moves that place pods on one of these nodes."""
        return {
            position for position, move in self._moves.items() if any(name in nodes for name in move.plan.placements)
        }

    def _replace(self, touched: Iterable[int], replacing_moves: Iterable[Move]) -> None:
        for position in touched:
            del self._moves[position]
        for move in replacing_moves:
            self._moves[self._next] = move
            self._next += 1

    def _put_together(self, move: Move, touched: Collection[int], after: CarriedOut) -> list[Move] | None:
        """Return the moves that have the same effect as those touched and this one after them; None if one may not."""
        before = [self._moves[position] for position in sorted(touched)]
        leaving = [claim for earlier_move in before for claim in earlier_move.claims]
        leaving += [claim for claim in move.claims if claim not in after.new]
        moved_nodes = {after.model.details[claim].node for claim in move.claims}
        planner = Planner(self._model, self._terms)
        claims: list[PlannedClaim] = []
        placements: dict[str, tuple[Pod, ...]] = {}
        for earlier_move in before:
            for name, planned in after.named(earlier_move.claims, earlier_move.plan):
                if name not in moved_nodes:
                    arriving = move.plan.placements.get(name, ())
                    larger = planner.larger(planned, arriving) if arriving else planned
                    if larger is None:
                        return None
                    claims.append(larger)
            for node, pods in earlier_move.plan.placements.items():
                if node not in moved_nodes:
                    placements[node] = (*placements.get(node, ()), *pods)
        claims += move.plan.claims
        for node, pods in move.plan.placements.items():
            if node not in after.new:
                placements[node] = (*placements.get(node, ()), *pods)
        together = Plan(tuple(claims), placements)
        if before and has_rules(together):
            return None  # each was planned for the pods as they were at that time
        new_moves = []
        for part, own in independent_parts(together, leaving, self._model.details):
            priced = planner.priced(part, own)
            if priced is None or len(part) > max(MAX_JOINED, len(move.claims)):
                return None
            new_moves.append(priced)
        if self._worth(new_moves) <= self._worth(before) + LEAST_SAVING:
            return None
        others = self._others(touched)
        if not stand_together(self._model, [*others, *new_moves]):
            return None
        return new_moves if would_start(self._model, self._terms, new_moves, others) else None

    def _planned_again(self, move: Move, touched: Collection[int], new: Mapping[str, int]) -> list[Move] | None:
        """Return the engine's moves for the nodes of those touched and this one; None if they save no more."""
        own = [claim for claim in move.claims if claim not in new]
        before = [self._moves[position] for position in sorted(touched)]
        if before and len(own) + sum(len(earlier_move.claims) for earlier_move in before) > MAX_JOINED:
            return None
        others = self._others(touched)
        planner = Planner(self._model, self._terms)
        planner.accept(others)
        every = [*own, *(claim for earlier_move in before for claim in earlier_move.claims)]
        best_moves = self._best(planner, every, others)
        if self._worth(best_moves) <= self._worth(before) + LEAST_SAVING:
            return None
        return best_moves if would_start(self._model, self._terms, best_moves, others) else None

    def _best(self, planner: Planner, claims: Sequence[str], others: Sequence[Move]) -> list[Move]:
        """Return the best moves of these nodes, of which one, or all of a type, may stay if the others need it."""
        details = self._model.details
        attempts = [list(claims)]
        if bought_again := self._bought_again(planner, claims):
            attempts.append([claim for claim in claims if claim not in bought_again])
        if 1 < len(claims) <= MAX_STAYING:
            attempts += [[claim for claim in claims if claim != staying] for staying in claims]
            attempts += [
                [claim for claim in claims if details[claim].instance_type != kind]
                for kind in sorted({details[claim].instance_type for claim in claims})
            ]
        best: list[Move] = []
        for attempt in attempts:
            attempt_moves = planner.moves_of(attempt)
            budget = MoveBudgets(dict(self._allowances), self._terms.pool_of)
            affordable = budget.take(claim for move in (*others, *attempt_moves) for claim in move.claims)
            better = affordable and self._worth(attempt_moves) > self._worth(best) + LEAST_SAVING
            if better and stand_together(self._model, [*others, *attempt_moves]):
                best = attempt_moves
        return best

    def _bought_again(self, planner: Planner, claims: Sequence[str]) -> set[str]:
        """Return nodes that could stay because the engine would replace these nodes by nodes of the same types."""
        plan = planner.rescheduler.simulate(claims, expired=self._terms.expired)
        replaced: set[str] = set()
        for planned in plan.claims:
            for claim in claims:
                detail = self._model.details[claim]
                own = (detail.capacity_type, detail.instance_type)
                if claim not in replaced and own == planned.offering[:2]:
                    replaced.add(claim)
                    break
        return replaced

    def _worth(self, moves: Iterable[Move]) -> float:
        charge = self._model.problem.node_charge
        return sum(move.expected + charge * (len(move.claims) - len(move.plan.claims)) for move in moves)
