"""Chooses whole packings of nodes by column generation: a linear program over packings that fit on one node.

The program covers every pod with fractions of packings at the least cost. Its dual prices say what a pod of each class
is worth, and packings whose pods are worth more than their node costs are added until there are none, or not in time.
Then packings are bought whole, one after another, and the program is solved again for the pods that are left. So the
last nodes are chosen for the pods that remain.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tenon.errors import TenonError
from tenon.scheduling.column_generation.node_filling import FEW_WEIGHTS, WEIGHTS, Filled, fill
from tenon.scheduling.column_generation.node_options import Flags, NodeOptions
from tenon.scheduling.deadline import Expired
from tenon.scheduling.offerings.type_candidates import Floats, Numbers

if TYPE_CHECKING:
    import highspy

SolverOptions = Mapping[str, bool | int | str]
SOLVER_OPTIONS: SolverOptions = {
    "output_flag": False,
    "threads": 1,
    "presolve": "off",
    "solver": "simplex",
}
PRIMAL: SolverOptions = {
    "simplex_strategy": 4,
    "simplex_scale_strategy": 0,
}
"""For a program to which packings are added: its basis stays feasible, and scaling takes as long as the few steps."""
MAX_SECONDS = 5.0
"""A solver that takes longer has failed. Programs take milliseconds, so this decides no plan of a healthy solver."""
ROUNDS = 20
"""How often packings are added for the whole load."""
LATER_ROUNDS = 2
"""How often packings are added for the pods that are left, after a node was bought."""
NEARLY = 1e-6
"""Counts as nothing."""
ADDED = 40
"""How many packings are added at once."""
GAIN = 1e-6
"""Dollars an hour by which the pods of a new packing must be worth more than its node."""
FIRST_PROMISING = 0.7
"""Options whose pods are worth less for their price than this part of the best option's are not filled again."""
MILD = 0.5
"""The weight of the earlier prices in the mean."""


@dataclass(frozen=True, slots=True)
class NodePacking:
    """A node of a type, by its number, with pods of each class, and its cost in dollars an hour."""

    type: int
    pods: Numbers
    cost: float
    source: int = 0
    """Which of the options' sources sells the node."""
    usage: tuple[float, ...] = ()
    """The part of each limit that the node uses up."""

    @property
    def key(self) -> tuple[bytes, int, tuple[float, ...]]:
        """Equal for packings that are the same to the program."""
        return self.pods.tobytes(), self.source, self.usage


@dataclass(frozen=True, slots=True)
class Prices:
    """What a pod of each class is worth, and what a node of each option costs, in dollars an hour."""

    worth: Floats
    cost: Floats
    bonus: Floats | None = None
    """How much more every pod is worth on a node of each option; None if nothing."""
    limits: Floats | None = None
    """What each limit is worth."""

    def mixed(self, other: Prices) -> Prices:
        """The mean of these prices and others."""
        return Prices(_mean(self.worth, other.worth), _mean(self.cost, other.cost), other.bonus)


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
    """How often each packing is bought, the dual prices, and the cost."""

    bought: Floats
    prices: Prices
    cost: float


class ProgramFailedError(TenonError):
    """The solver did not solve a program for the new nodes of a plan."""


class NoSolutionError(ProgramFailedError):
    """Nothing meets all rules of a program."""


class Columns:
    """Asks the engine to generate columns, and collects what the programs say."""

    def __init__(self) -> None:
        """Start before the first program."""
        self.failures: list[str] = []
        """Why programs failed. Their plans keep the nodes from before."""
        self.least_unplaced: int | None = None
        """How many pods of the last problem have no place on new nodes in any plan; None if unknown."""


class Master:
    """The linear program, which stays in the solver while packings are added."""

    solver_options: ClassVar[SolverOptions] = PRIMAL

    def __init__(self, options: NodeOptions, counts: Numbers, promising: Flags | None = None) -> None:
        """Start without packings: each pod of ``counts`` must be covered. Only ``promising`` options are filled."""
        self.options = options
        self.remaining = counts.copy()
        self.packings: list[NodePacking] = []
        self.table: Numbers = np.zeros((0, len(counts)), dtype=np.int64)
        """The pods of each packing."""
        self.promising: Flags = np.ones(len(options.price), dtype=bool) if promising is None else promising.copy()
        self.solver = new_solver(self.solver_options)
        """Its rows begin with the classes, and its columns end with the packings."""
        self._keys: set[tuple[bytes, int, tuple[float, ...]]] = set()
        self.add_rows(counts.astype(float), np.full(len(counts), np.inf))

    def add_rows(self, least: Floats, most: Floats) -> None:
        """Add empty rows."""
        if len(least):
            starts, nothing = np.zeros(len(least), dtype=np.int32), np.zeros(0, dtype=np.int32)
            self.solver.addRows(len(least), least, most, 0, starts, nothing, np.zeros(0))

    def add(self, packings: Sequence[NodePacking]) -> int:
        """Add packings. Return how many are new."""
        added = []
        for packing in packings:
            key = packing.key
            if key not in self._keys:
                self._keys.add(key)
                added.append(packing)
        if not added:
            return 0
        table = np.array([packing.pods for packing in added])
        self.add_columns(np.array([packing.cost for packing in added]), self._coefficients(added, table))
        self.packings.extend(added)
        self.table = np.vstack([self.table, table])
        return len(added)

    def add_columns(self, costs: Floats, coefficients: Floats, most: Floats | None = None) -> None:
        """Add columns that are rows of ``coefficients``, each taken at most so often."""
        holders, rows = np.nonzero(coefficients)
        starts = np.searchsorted(holders, np.arange(len(costs))).astype(np.int32)
        self.solver.addCols(
            len(costs),
            costs,
            np.zeros(len(costs)),
            np.full(len(costs), np.inf) if most is None else most,
            len(holders),
            starts,
            rows.astype(np.int32),
            coefficients[holders, rows],
        )

    def admits(self, pods: Numbers) -> bool:
        """Whether so many pods of each class may be bought."""
        return bool((pods <= self.remaining).all())

    def take(self, pods: Numbers, bought: Floats) -> None:
        """Cover fewer pods from now on. Packings with more than the remaining pods are not bought any more.

        Those that were ``bought`` in part are replaced by packings of what remains of their pods.
        """
        self._cover_fewer(pods)
        table = self.table
        excessive = np.flatnonzero((table > self.remaining).any(axis=1))
        halves = excessive[bought[excessive] > NEARLY]
        self.add(trimmed(self.options, np.minimum(table[halves], self.remaining)))
        self.solver.changeColsBounds(
            len(excessive), excessive.astype(np.int32), np.zeros(len(excessive)), np.zeros(len(excessive))
        )

    def _cover_fewer(self, pods: Numbers) -> None:
        """Let the rows cover fewer pods."""
        self.remaining = self.remaining - pods
        self.bound_rows(self.remaining.astype(float), np.full(len(pods), np.inf))

    def bound_rows(self, least: Floats, most: Floats) -> None:
        """Change what the first rows cover at least and at most."""
        rows = np.arange(len(least), dtype=np.int32)
        self.solver.changeRowsBounds(len(rows), rows, least, most)  # type: ignore[attr-defined]

    def reprice(self) -> Prices:
        """Solve the program for the packings that were added. Return its prices.

        Raises:
            ProgramFailedError: the solver has no optimal solution.
        """
        run(self.solver)
        return self._prices(np.array(self.solver.getSolution().row_dual))

    def solution(self, prices: Prices) -> Solution:
        """Return the solution of the program, whose prices these are. Nothing was added since it was solved."""
        bought = np.array(self.solver.getSolution().col_value)[-len(self.packings) :]
        return Solution(bought, prices, self.solver.getInfo().objective_function_value)

    def solve(self) -> Solution:
        """Solve the program for the packings that were added.

        Raises:
            ProgramFailedError: the solver has no optimal solution.
        """
        return self.solution(self.reprice())

    def first_prices(self) -> Prices:
        """Prices to begin with: pods are worth their cheapest share of a node."""
        return Prices(self.options.worth(), self.options.price)

    def fill(self, prices: Prices, weights: tuple[tuple[float, float], ...] = FEW_WEIGHTS) -> Priced:
        """Fill the promising options for these prices."""
        rows = np.flatnonzero(self.promising)
        filled = fill(self.options, prices.worth, self.remaining, weights, rows, prices.bonus)
        return Priced(filled, filled.value / prices.cost[filled.rows], rows)

    def add_best(self, priced: Priced, prices: Prices, least_gain: float = GAIN) -> int:
        """Add the best packings, as `_merit` compares them. Return how many are new."""
        rows, pods = priced.filled.rows, priced.filled.pods
        cost = prices.cost[rows]
        value = pods @ prices.worth
        if prices.bonus is not None:
            value = value + pods.sum(axis=1) * prices.bonus[rows]
        order = np.argsort(-self._merit(value, cost), kind="stable")[: 2 * ADDED]
        order = order[value[order] - cost[order] > least_gain][:ADDED]
        return self.add(self._packings(rows[order], pods[order]))

    def generate(self, rounds: int, expired: Expired) -> Solution:
        """Add packings. Return the solution of the program."""
        prices = self.reprice()
        for _ in range(rounds):
            if expired() or not self.add_best(self.fill(prices), prices):
                break
            prices = self.reprice()
        return self.solution(prices)

    def converge(self, rounds: int, expired: Expired) -> Solution:
        """Add packings until there are no better ones. Return the solution of the program.

        The prices of a program with few packings are extreme, so packings are also sought for milder ones: the mean of
        these prices and of those of the rounds before.
        """
        mean = self.first_prices()
        priced = self.fill(mean)
        self._drop_dear(priced)
        self.add_best(priced, mean, -np.inf)
        prices = self.reprice()
        for _ in range(rounds):
            if expired():
                break
            mean = mean.mixed(prices)
            if not self.add_best(self.fill(mean), prices) and not self.add_best(self.fill(prices, WEIGHTS), prices):
                break
            prices = self.reprice()
        return self.solution(prices)

    def _drop_dear(self, priced: Priced) -> None:
        """Do not fill again the options that are far from the best."""
        self.promising[priced.rows[priced.best_ratios() < FIRST_PROMISING * priced.ratio.max()]] = False

    def packing(self, row: int, pods: Numbers) -> NodePacking:
        """A node of an option, by its row, with these pods."""
        return self._packings(np.array([row]), pods[None])[0]

    def _packings(self, rows: Numbers, pods: Numbers) -> list[NodePacking]:
        options = self.options
        types, sources = options.types[rows].tolist(), options.sources[rows].tolist()
        usage = map(tuple, options.usage[rows].tolist())
        return list(map(NodePacking, types, pods, options.price[rows].tolist(), sources, usage))

    def _merit(self, value: Floats, cost: Floats) -> Floats:
        """How good packings are, by what their pods are worth and what their nodes cost."""
        return value - cost

    def _coefficients(self, packings: Sequence[NodePacking], table: Numbers) -> Floats:  # noqa: ARG002 - of the rows
        """What each of the packings adds to each row of the program."""
        return table.astype(float)

    def _prices(self, duals: Floats) -> Prices:
        """The prices that a solution puts on the rows."""
        return Prices(np.maximum(duals, 0.0), self.options.price)


def new_solver(more: SolverOptions | None = None) -> highspy.Highs:
    """Return a solver without a program, with more options."""
    import highspy  # takes memory in the worker, and only plans with new nodes need it

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for name, value in {**SOLVER_OPTIONS, **(more or {})}.items():
        solver.setOptionValue(name, value)
    return solver


def run(solver: highspy.Highs, seconds: float = MAX_SECONDS) -> None:
    """Solve a program.

    Raises:
        NoSolutionError: nothing meets all rules of the program.
        ProgramFailedError: the solver takes longer than these seconds, or fails.
    """
    import highspy

    solver.setOptionValue("time_limit", solver.getRunTime() + seconds)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        raise NoSolutionError("nothing meets all rules of a program for new nodes")
    if status != highspy.HighsModelStatus.kOptimal:
        raise ProgramFailedError(
            f"HiGHS ended a program for new nodes with the status {solver.modelStatusToString(status)!r}"
        )


def _mean(first: Floats, second: Floats) -> Floats:
    mean: Floats = MILD * first + (1 - MILD) * second
    return mean


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


def buy(master: Master, rounds: int, expired: Expired, most: float = inf) -> list[NodePacking] | None:
    """Buy whole packings until every pod has a place.

    None if there is no time for that, or if the program says on the way that they will cost ``most`` or more.
    """
    nodes: list[NodePacking] = []
    spent, solution = 0.0, master.generate(rounds, expired)
    while master.remaining.any():
        if expired() or spent + solution.cost >= most - NEARLY:
            return None
        bought = solution.bought
        times = np.floor(bought + NEARLY).astype(np.int64)
        if not times.any():
            times[int(bought.argmax())] = 1
        bought_pods = np.zeros_like(master.remaining)
        for number in np.flatnonzero(times).tolist():
            packing = master.packings[number]
            for _ in range(int(times[number])):
                if master.admits(bought_pods + packing.pods):
                    nodes.append(packing)
                    spent += packing.cost
                    bought_pods = bought_pods + packing.pods
        if not bought_pods.any():
            return None
        master.take(bought_pods, bought)
        if master.remaining.any():
            master.add(trimmed(master.options, master.remaining[None]))
            solution = master.generate(LATER_ROUNDS, expired)
    return nodes
