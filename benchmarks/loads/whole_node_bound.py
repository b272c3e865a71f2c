"""A lower bound on the cost of any plan for the same pods in which nodes are whole.

An integer program chooses how many nodes of each option are bought, and how many pods that spread are in each zone.
Its rows are limits of NodePools and inequalities that the nodes of every plan meet (`node_inequalities`). While the
pods do not fit on the nodes of its solution, another inequality is added. So the program is a relaxation at any time,
and the bound of its branch and bound holds for every plan. In the end, whole nodes hold all pods if each node may be
divided among several packings of it: only that is left out.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import highspy
import numpy as np

from benchmarks.loads.node_contents import NodeContents
from benchmarks.loads.node_inequalities import Inequality, Separation, first_inequalities
from benchmarks.loads.purchases import Floats, Integers, Purchases
from benchmarks.loads.spread_rows import spread_rows
from tenon.errors import TenonError
from tenon.scheduling.limited.divisible_load import dense_program

SAFETY = 1e-6
"""Relative margin for the solver's tolerances."""
CLOSE = 1.2
"""Inequalities that a solution meets with a margin above this are not sharpened for its options."""

LITTLE = 1e-4
"""While another inequality raises the bound by less than this part, nodes are whole."""
CONTRADICTIONS = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)


class BrokenInequalityError(TenonError):
    """No nodes at the cost of the plan meet the inequalities, although the plan's do."""


@dataclass(frozen=True, slots=True)
class WholeNodeBound:
    """``cost`` in dollars an hour, and how it was found."""

    cost: float
    method: str
    nodes: Integers | None = None
    """How many nodes of each option the last solution has; None if there is none."""


@dataclass(frozen=True, slots=True)
class _Solution:
    bound: float
    nodes: Floats | None
    """Of each option; None if the solver found no solution in time."""
    spread_pods: Floats
    """The pods of each class that spread."""


def whole_node_bound(purchases: Purchases, plan_cost: float, seconds: float) -> WholeNodeBound:
    """Return the least cost of any plan.

    Args:
        purchases: the pods of a plan, and what may be bought for them.
        plan_cost: of that plan, which caps the bound.
        seconds: after which the bound that is reached counts.

    Raises:
        BrokenInequalityError: the plan contradicts the program.
    """
    if not len(purchases.cost) or not purchases.most.any():
        return WholeNodeBound(0.0, "no pods")
    deadline = time.monotonic() + seconds
    contents = NodeContents(purchases)
    separation = Separation(contents)
    inequalities = [
        inequality for inequality in first_inequalities(contents) if inequality.needed > 0 or inequality.values.any()
    ]
    bound, before, is_whole = 0.0, 0.0, False
    nodes: Integers | None = None

    def answer(method: str) -> WholeNodeBound:
        text = f"{method}, {len(inequalities)} inequalities"
        return WholeNodeBound(min(bound, plan_cost) * (1 - SAFETY), text, nodes)

    while True:
        solution = _solved(purchases, inequalities, plan_cost, deadline - time.monotonic() if is_whole else None)
        bound = max(bound, solution.bound)
        if is_whole and solution.nodes is not None:
            nodes = solution.nodes.astype(np.int64)
        if bound >= plan_cost * (1 - SAFETY):
            return answer("no plan costs less")
        if solution.nodes is None or time.monotonic() > deadline:
            return answer(f"whole nodes, ended after {seconds:.0f} s")
        used = np.flatnonzero(solution.nodes)
        sharpened = False
        for inequality in inequalities:
            if inequality.holds @ solution.nodes < CLOSE * (
                inequality.needed + inequality.values @ solution.spread_pods
            ):
                sharpened |= inequality.sharpen(used)
        if sharpened and any(inequality.missed(solution.nodes, solution.spread_pods) for inequality in inequalities):
            continue
        another = separation.missed(solution.nodes, solution.spread_pods)
        if another is not None:
            inequalities.append(another)
        elif is_whole:
            return answer("whole nodes, with pods in parts of packings")
        if another is None or bound < before * (1 + LITTLE):
            is_whole = True
        before = bound


def _solved(purchases: Purchases, inequalities: list[Inequality], plan_cost: float, seconds: float | None) -> _Solution:
    """Solve the program, with whole nodes if there is a time limit."""
    spreads, options = spread_rows(purchases), len(purchases.cost)
    width = options + spreads.width
    unit = np.array([max(1.0, float(inequality.holds.max(initial=0))) for inequality in inequalities])
    holds = np.array([np.minimum(inequality.holds, inequality.everything) for inequality in inequalities])
    values = np.array([inequality.values for inequality in inequalities])
    needed = np.array([inequality.needed for inequality in inequalities])
    limits = len(purchases.limits)
    solver = dense_program(
        np.concatenate([purchases.cost, np.zeros(spreads.width)]),
        (np.zeros(width), np.concatenate([np.floor(plan_cost / purchases.cost * (1 + SAFETY)), spreads.most])),
        np.vstack(
            [
                np.hstack([holds, -values @ spreads.of_classes]) / unit[:, None],
                np.hstack([np.zeros((len(spreads.table), options)), spreads.table]),
                np.hstack([(purchases.usage / np.maximum(1, purchases.limits)).T, np.zeros((limits, spreads.width))]),
                np.concatenate([purchases.cost / plan_cost, np.zeros(spreads.width)])[None],
            ]
        ),
        (
            np.concatenate([needed / unit, spreads.lower, np.full(limits + 1, -np.inf)]),
            np.concatenate([np.full(len(unit), np.inf), spreads.upper, np.full(limits + 1, 1 + SAFETY)]),
        ),
    )
    solver.setOptionValue("presolve", "on")
    solver.setOptionValue("solver", "choose")
    if seconds is not None:
        every = np.arange(width, dtype=np.int32)
        solver.changeColsIntegrality(width, every, np.full(width, highspy.HighsVarType.kInteger))
        solver.setOptionValue("time_limit", max(seconds, 0.1))
        solver.setOptionValue("mip_rel_gap", SAFETY)
    solver.run()
    if solver.getModelStatus() in CONTRADICTIONS:
        raise BrokenInequalityError("the plan breaks an inequality that all plans must meet: the bound is wrong")
    info = solver.getInfo()
    amounts = np.array(solver.getSolution().col_value)
    amounts = np.where(amounts > SAFETY, amounts, 0.0) if seconds is None else np.round(amounts)
    is_optimal = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    divisible_bound = info.objective_function_value if is_optimal else 0.0
    bound = divisible_bound if seconds is None else info.mip_dual_bound
    has_solution = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    return _Solution(bound, amounts[:options] if has_solution else None, spreads.of_classes @ amounts[options:])
