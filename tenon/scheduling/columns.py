"""Chooses whole packings of nodes by column generation: a linear program over packings that fit on one node.

The program covers every pod with fractions of packings at the least cost. Its dual prices say what a pod of each class
is worth, and packings whose pods are worth more than their node costs are added until there are none, or not in time.
Then packings are bought whole, one after another, and the program is solved again for the pods that are left. So the
last nodes are chosen for the pods that remain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tenon.scheduling.deadline import Expired
from tenon.scheduling.node_filling import FEW_WEIGHTS, WEIGHTS, Filled, fill
from tenon.scheduling.node_options import Flags, NodeOptions
from tenon.scheduling.type_candidates import Floats, Numbers

ROUNDS = 10
"""How often packings are added for the whole load."""
LATER_ROUNDS = 2
"""How often packings are added for the pods that are left, after a node was bought."""
NEARLY = 1e-6
"""Counts as nothing."""
ADDED = 40
"""How many packings are added at once."""
GAIN = 1e-6
"""Dollars an hour by which the pods of a new packing must be worth more than its node."""
FIRST_PROMISING = 0.8
"""Options whose pods are worth less for their price than this part of the best option's are not filled again."""
MILD = 0.5
"""The weight of the earlier prices in the mean."""


@dataclass(frozen=True, slots=True)
class NodePacking:
    """A node of a type, by its number, with pods of each class, and its cost in dollars an hour."""

    type: int
    pods: Numbers
    cost: float


@dataclass(frozen=True, slots=True)
class Priced:
    """Filled nodes, the worth of their pods for each dollar of cost, and the options that were filled."""

    filled: Filled
    ratio: Floats
    rows: Numbers

    def best_ratios(self) -> Floats:
        """The best ratio of each option."""
        best: Floats = self.ratio.reshape(-1, len(self.rows)).max(axis=0)
        return best


@dataclass(frozen=True, slots=True)
class Solution:
    """How often each packing is bought, what a pod of each class is worth, and the cost."""

    bought: Floats
    worth: Floats
    cost: float


class Master:
    """The linear program, which stays in the solver while packings are added."""

    def __init__(self, options: NodeOptions, counts: Numbers, promising: Flags | None = None) -> None:
        """Start without packings: each pod of ``counts`` must be covered. Only ``promising`` options are filled."""
        self.options = options
        self.remaining = counts.copy()
        self.packings: list[NodePacking] = []
        self.table: Numbers = np.zeros((0, len(counts)), dtype=np.int64)
        """The pods of each packing."""
        self._keys: set[bytes] = set()
        import highspy  # takes memory in the worker, and only plans with new nodes need it

        self._solver = highspy.Highs()  # type: ignore[no-untyped-call]
        for name, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("solver", "simplex")):
            self._solver.setOptionValue(name, value)
        size = len(counts)
        nothing = np.zeros(0, dtype=np.int32)
        self._solver.addRows(
            size, counts.astype(float), np.full(size, np.inf), 0, np.zeros(size, dtype=np.int32), nothing, np.zeros(0)
        )
        self.promising: Flags = np.ones(len(options.price), dtype=bool) if promising is None else promising.copy()

    def add(self, packings: Sequence[NodePacking]) -> int:
        """Add packings. Return how many are new."""
        added = []
        for packing in packings:
            key = packing.pods.tobytes()
            if key not in self._keys:
                self._keys.add(key)
                added.append(packing)
        if not added:
            return 0
        table = np.array([packing.pods for packing in added])
        holders, classes = np.nonzero(table)
        starts = np.searchsorted(holders, np.arange(len(added))).astype(np.int32)
        self._solver.addCols(
            len(added),
            np.array([packing.cost for packing in added]),
            np.zeros(len(added)),
            np.full(len(added), np.inf),
            len(holders),
            starts,
            classes.astype(np.int32),
            table[holders, classes].astype(float),
        )
        self.packings.extend(added)
        self.table = np.vstack([self.table, table])
        return len(added)

    def take(self, pods: Numbers, bought: Floats) -> None:
        """Cover fewer pods from now on. Packings with more than the remaining pods are not bought any more.

        Those that were ``bought`` in part are replaced by packings of what remains of their pods.
        """
        self.remaining = self.remaining - pods
        size = len(pods)
        self._solver.changeRowsBounds(  # type: ignore[attr-defined]
            size, np.arange(size, dtype=np.int32), self.remaining.astype(float), np.full(size, np.inf)
        )
        table = self.table
        excessive = np.flatnonzero((table > self.remaining).any(axis=1))
        halves = excessive[bought[excessive] > NEARLY]
        self.add(trimmed(self.options, np.minimum(table[halves], self.remaining)))
        self._solver.changeColsBounds(
            len(excessive), excessive.astype(np.int32), np.zeros(len(excessive)), np.zeros(len(excessive))
        )

    def solve(self) -> Solution:
        """Solve the program for the packings that were added."""
        self._solver.run()
        solution = self._solver.getSolution()
        bought = np.array(solution.col_value)
        worth = np.maximum(np.array(solution.row_dual), 0.0)
        return Solution(bought, worth, self._solver.getInfo().objective_function_value)

    def fill(self, worth: Floats, weights: tuple[tuple[float, float], ...] = FEW_WEIGHTS) -> Priced:
        """Fill the promising options for these values of pods."""
        rows = np.flatnonzero(self.promising)
        filled = fill(self.options, worth, self.remaining, weights, rows)
        return Priced(filled, filled.value / self.options.price[filled.rows], rows)

    def add_best(self, priced: Priced, worth: Floats, least_gain: float = GAIN) -> int:
        """Add the packings whose pods are worth most compared with their node. Return how many are new."""
        price = self.options.price[priced.filled.rows]
        value = priced.filled.pods @ worth
        order = np.argsort(-value / price, kind="stable")[: 2 * ADDED]
        order = order[value[order] - price[order] > least_gain]
        rows = priced.filled.rows
        return self.add(
            [
                NodePacking(int(self.options.types[rows[number]]), priced.filled.pods[number], float(price[number]))
                for number in order.tolist()
            ][:ADDED]
        )

    def generate(self, rounds: int, expired: Expired) -> Solution:
        """Add packings. Return the solution of the program."""
        solution = self.solve()
        for _ in range(rounds):
            if expired() or not self.add_best(self.fill(solution.worth), solution.worth):
                break
            solution = self.solve()
        return solution

    def converge(self, rounds: int, expired: Expired) -> Solution:
        """Add packings until there are no better ones. Return the solution of the program.

        The prices of a program with few packings are extreme, so packings are also sought for milder ones: the mean of
        these prices and of those of the rounds before.
        """
        mean = self.options.worth()
        priced = self.fill(mean)
        self.promising[priced.rows[priced.best_ratios() < FIRST_PROMISING * priced.ratio.max()]] = False
        self.add_best(priced, mean, -np.inf)
        solution = self.solve()
        for _ in range(rounds):
            if expired():
                break
            mean = MILD * mean + (1 - MILD) * solution.worth
            added = self.add_best(self.fill(mean), solution.worth)
            if not added and not self.add_best(self.fill(solution.worth, WEIGHTS), solution.worth):
                break
            solution = self.solve()
        return solution


def trimmed(options: NodeOptions, table: Numbers) -> list[NodePacking]:
    """Return packings of these pods, one a row, each on the cheapest node that holds them."""
    table = table[table.any(axis=1)]
    if not len(table):
        return []
    need = table @ np.where(options.amounts < 1, 0.0, options.amounts)
    holds = (table > 0).astype(np.float64) @ options.barred == 0
    for resource in range(need.shape[1]):
        holds &= need[:, resource, None] <= options.room[:, resource]
    price = np.where(holds, options.price, np.inf)
    rows = price.argmin(axis=1)
    return [
        NodePacking(int(options.types[row]), pods, float(options.price[row]))
        for pods, row, lowest in zip(table, rows.tolist(), price.min(axis=1).tolist(), strict=True)
        if np.isfinite(lowest)
    ]


def buy(master: Master, rounds: int, expired: Expired) -> list[NodePacking] | None:
    """Buy whole packings until every pod has a place. None if there is no time for that."""
    nodes: list[NodePacking] = []
    bought = master.generate(rounds, expired).bought
    while master.remaining.any():
        if expired():
            return None
        times = np.floor(bought + NEARLY).astype(np.int64)
        if not times.any():
            times[int(bought.argmax())] = 1
        bought_pods = np.zeros_like(master.remaining)
        for number in np.flatnonzero(times).tolist():
            packing = master.packings[number]
            for _ in range(int(times[number])):
                if (packing.pods <= master.remaining - bought_pods).all():
                    nodes.append(packing)
                    bought_pods = bought_pods + packing.pods
        if not bought_pods.any():
            return None
        master.take(bought_pods, bought)
        if master.remaining.any():
            master.add(trimmed(master.options, master.remaining[None]))
            bought = master.generate(LATER_ROUNDS, expired).bought
    return nodes
