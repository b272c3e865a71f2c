"""The linear program for NodePools whose limits may bind: limits are rows of it, and pods may stay without a place.

A pod without a place costs more than any node, so that the most pods are placed, and of the ways to place them the
cheapest is chosen. The dual price of a limit is added to what a node costs that uses it up. Then packings are bought
whole, one after another, and more are generated for the pods and limits that are left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np

from tenon.scheduling.column_generation.columns import (
    NEARLY,
    Master,
    NodePacking,
    NoSolutionError,
    Priced,
    Prices,
    Solution,
    SolverOptions,
)
from tenon.scheduling.column_generation.node_filling import Filled, exchanged
from tenon.scheduling.column_generation.node_options import Flags, NodeOptions
from tenon.scheduling.deadline import Expired
from tenon.scheduling.offerings.type_candidates import Floats, Numbers

EXCHANGED = 60
"""In how many of the best packings pods are replaced."""
DIVE_ROUNDS = 2
"""How often packings are added after a node was bought."""


@dataclass(frozen=True, slots=True)
class Rations:
    """What the program must respect besides pods and nodes."""

    limits: Floats
    """The part of each limit that is left."""
    penalty: Floats
    """What a pod of each class costs that stays without a place, in dollars an hour."""
    forced: Numbers
    """How many pods of each class stay without a place at least."""
    optional: Numbers
    """How many may."""
    forced_in_all: int
    """How many pods stay without a place at least."""
    preferred: Flags
    """For each weight of NodePools but the least (rows), the sources of at least this weight."""
    least: Numbers
    """How many pods those sources must hold together."""

    def after(self, packing: NodePacking, remaining: Numbers) -> Rations:
        """What is left once a node is bought, with so many ``remaining`` pods."""
        return replace(
            self,
            limits=self.limits - packing.usage,
            optional=np.minimum(self.optional, remaining),
            least=self.least - self.preferred[:, packing.source] * packing.pods.sum(),
        )


class LimitedMaster(Master):
    """The program with limits. Its first columns are the pods without a place."""

    solver_options: ClassVar[SolverOptions] = {}
    """What is left of pods and limits changes as often as packings are added."""

    def __init__(self, options: NodeOptions, counts: Numbers, rations: Rations) -> None:
        """Start without packings."""
        super().__init__(options, counts)
        self.rations = rations
        classes, limits, weights = len(counts), len(rations.limits), len(rations.least)
        self.add_rows(np.full(limits + weights + 1, -np.inf), np.full(limits + weights + 1, np.inf))
        absent = np.hstack([np.eye(classes, classes + limits + weights), np.ones((classes, 1))])
        self.add_columns(rations.penalty, absent)
        self._bound()

    def left(self) -> Floats:
        """How many pods of each class have no place in the solution."""
        unplaced: Floats = np.array(self.solver.getSolution().col_value)[: len(self.remaining)]
        return unplaced

    def cost_of(self, nodes: Sequence[NodePacking]) -> float:
        """What nodes cost, and the pods that have no place on them."""
        unplaced = self.remaining - np.sum([node.pods for node in nodes], axis=0, dtype=np.int64)
        return float(sum(node.cost for node in nodes) + unplaced @ self.rations.penalty)

    def node_cost(self, solution: Solution) -> float:
        """What the nodes of a solution cost."""
        return float(solution.bought @ np.array([packing.cost for packing in self.packings]))

    def generate(self, rounds: int, expired: Expired) -> Solution:
        """Add packings. Return the solution of the program."""
        prices = self.reprice()
        for _ in range(rounds):
            if expired():
                break
            priced = self.fill(prices)
            if not self.add_best(priced, prices) and not self._add_exchanged(priced, prices):
                break
            prices = self.reprice()
        return self.solution(prices)

    def _add_exchanged(self, priced: Priced, prices: Prices) -> int:
        """Add the best of the packings in which pods were replaced by others. Return how many are new."""
        if self.options.conflicts is not None:
            return 0
        best = np.argsort(-priced.ratio, kind="stable")[:EXCHANGED]
        filled = Filled(priced.filled.rows[best], priced.filled.pods[best], priced.filled.value[best])
        worth = np.broadcast_to(prices.worth, filled.pods.shape)
        if prices.bonus is not None:
            worth = worth + prices.bonus[filled.rows][:, None]
        others = exchanged(self.options, filled, worth, self.remaining)
        return self.add_best(Priced(others, others.value / prices.cost[others.rows], others.rows), prices)

    def change(self, rations: Rations) -> None:
        """Respect other rations from now on."""
        self.rations = rations
        self._bound()

    def dive(
        self, solution: Solution, expired: Expired, turns: Sequence[int] = (), most: float = inf
    ) -> list[NodePacking] | None:
        """Buy whole packings one after another, and generate more for what is left. None if that fails.

        Args:
            solution: of this program, which stays as it is.
            expired: whether there is no more time.
            turns: of each choice among packings that are bought in part, which is taken, the largest part first.
            most: the dive ends as soon as the program says that nodes and pods without a place will cost as much.
        """
        rest = LimitedMaster(self.options, self.remaining, self.rations)
        rest.add(self.packings)  # in the same order
        spent, nodes, choices = 0.0, list[NodePacking](), iter(turns)
        while ((bought := solution.bought) > NEARLY).any():
            if spent + solution.cost >= most - NEARLY:
                return None
            numbers = np.repeat(np.arange(len(bought)), np.floor(bought + NEARLY).astype(np.int64)).tolist()
            if not numbers:
                order = np.argsort(-bought, kind="stable")[: int((bought > NEARLY).sum())].tolist()
                numbers = [order[min(next(choices, 0), len(order) - 1)]]
            packings = [packing for number in numbers if rest.buy(packing := rest.packings[number])]
            if expired() or not packings:
                return None
            nodes += packings
            spent += sum(packing.cost for packing in packings)
            rest.replace(bought)
            try:
                solution = rest.generate(DIVE_ROUNDS, expired)
            except NoSolutionError:
                return None
        return nodes

    def buy(self, packing: NodePacking) -> bool:
        """Take a packing from what is left. Return whether that is possible."""
        if (packing.pods > self.remaining).any() or (self.rations.limits - packing.usage < -NEARLY).any():
            return False
        self.remaining = self.remaining - packing.pods
        self.rations = self.rations.after(packing, self.remaining)
        return True

    def replace(self, bought: Floats) -> None:
        """After some were bought, replace packings that are too large for what is left, as far as they were bought."""
        limits = self.rations.limits + NEARLY
        usage = np.array([packing.usage for packing in self.packings]).reshape(len(self.packings), -1)
        excessive = np.flatnonzero((self.table > self.remaining).any(axis=1) | (usage > limits).any(axis=1))
        self.promising &= (self.options.usage <= limits).all(axis=1)
        self._bound()
        first = len(self.remaining)
        nothing = np.zeros(len(excessive))
        self.solver.changeColsBounds(len(excessive), (excessive + first).astype(np.int32), nothing, nothing)
        parts = [self.packings[number] for number in excessive.tolist() if bought[number] > NEARLY]
        self.add([smaller for packing in parts if (smaller := self._smaller(packing)) is not None])

    def _smaller(self, packing: NodePacking) -> NodePacking | None:
        """The cheapest node for what is left of a packing's pods; None if there is none."""
        options, pods = self.options, np.minimum(packing.pods, self.remaining)
        if not pods.any():
            return None
        holds = self.promising & (options.sources == packing.source) & options.allowed[:, pods > 0].all(axis=1)
        holds &= (options.room >= pods @ np.where(options.amounts < 1, 0.0, options.amounts)).all(axis=1)
        rows = np.flatnonzero(holds)
        return self.packing(int(rows[options.price[rows].argmin()]), pods) if len(rows) else None

    def _bound(self) -> None:
        """Write what is left into the program."""
        rations, infinite = self.rations, np.inf
        in_all = max(rations.forced_in_all, 0)
        least = np.concatenate([self.remaining, np.full(len(rations.limits), -infinite), rations.least, [in_all]])
        most = np.concatenate(
            [np.full(len(self.remaining), infinite), rations.limits, np.full(len(rations.least) + 1, infinite)]
        )
        rows, columns = np.arange(len(least), dtype=np.int32), np.arange(len(self.remaining), dtype=np.int32)
        self.solver.changeRowsBounds(len(rows), rows, least.astype(float), most)  # type: ignore[attr-defined]
        optional = np.maximum(rations.optional, rations.forced)
        self.solver.changeColsBounds(len(columns), columns, rations.forced.astype(float), optional.astype(float))

    def _drop_dear(self, priced: Priced) -> None:
        """Keep all: what an option costs depends on the limits, whose prices are not known yet."""

    def _merit(self, value: Floats, cost: Floats) -> Floats:
        """Compare by the ratio, because the worth of a pod includes what it costs to leave it without a place."""
        return value / cost

    def _coefficients(self, packings: Sequence[NodePacking], table: Numbers) -> Floats:
        usage = np.array([packing.usage for packing in packings]).reshape(len(packings), -1)
        preferred = self.rations.preferred[:, [packing.source for packing in packings]].T
        return np.hstack([table, usage, preferred * table.sum(axis=1)[:, None], np.zeros((len(packings), 1))])

    def _prices(self, duals: Floats) -> Prices:
        options, classes = self.options, len(self.remaining)
        limits = len(self.rations.limits)
        of_limits = np.maximum(-duals[classes : classes + limits], 0.0)
        cost = options.price + options.usage @ of_limits
        weights = np.maximum(duals[classes + limits : -1], 0.0)
        bonus = weights @ self.rations.preferred[:, options.sources] if weights.any() else None
        return Prices(np.maximum(duals[:classes], 0.0), cost, bonus, of_limits)
