"""Computes the least that any plan can cost, and so how far a plan can be from the optimum.

The bound is a linear program in which nodes and pods are divisible, and the only rules are resources, taints and node
affinity. The result does not rely on the precision of the HiGHS solver: the solver's dual prices (what the room of each
kind of node is worth) become a feasible dual solution, whose value is a lower bound whatever the solver's tolerances.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import highspy
import numpy as np

from tenon.scheduling.bound_columns import Reservation, existing, read_demand, to_buy
from tenon.scheduling.bound_tables import Floats, Tables, merged, pruned, tabulate
from tenon.scheduling.model import Problem

SAFETY = 1e-9
"""Relative margin subtracted from the bound for floating-point rounding."""


def lower_bound(problem: Problem, *, left_out: Collection[str] = (), node_charge: float = 0.0) -> float:
    """Return the least cost, in dollars an hour, of any plan for the problem's pods.

    Pods that no node could take do not count, nor do pods whose key is in ``left_out``. To compare a plan with the cost
    of placing the same pods, pass the plan's unschedulable pods. ``node_charge`` is added to the price of every node,
    as in the engine's own objective.
    """
    (bound,) = lower_bounds(problem, [node_charge], left_out=left_out)
    return bound


def lower_bounds(
    problem: Problem, node_charges: Iterable[float], *, left_out: Collection[str] = ()
) -> tuple[float, ...]:
    """Return `lower_bound` for each of the charges."""
    out = frozenset(left_out)
    demand = read_demand(pod for pod in problem.pods if not pod.unsupported and pod.key not in out)
    columns, places = to_buy(problem, demand)
    nodes = existing(problem, demand)

    def bound(charge: float) -> float:
        if not demand.counts or not columns:
            return 0.0
        priced = [replace(column, price=column.price + charge) for column in columns]
        tables = merged(pruned(tabulate(demand, priced, nodes)))
        if not len(tables.counts):
            return 0.0
        return max(0.0, _certified(tables, _dual_prices(tables, places), places) * (1 - SAFETY))

    return tuple(map(bound, node_charges))


def _dual_prices(tables: Tables, places: Mapping[Reservation, int]) -> Floats:
    """Solve the program. Return the dual price of a node's whole room, per column and resource."""
    columns, resources = tables.room.shape
    classes = len(tables.counts)
    shared = {reservation: number for number, reservation in enumerate(sorted(places))}
    holder, fitting_class = np.nonzero(tables.fits)
    pods = len(holder)
    share = np.divide(
        tables.requests[fitting_class],
        tables.room[holder],
        out=np.zeros((pods, resources)),
        where=tables.room[holder] > 0,
    )

    # variables: pods of a class on a column, then nodes of a column
    # rows: every class is placed, the nodes of a column have the room, a reservation has the places
    room_rows = classes + np.arange(columns * resources).reshape(columns, resources)
    reserved = [(classes + columns * resources + shared[r], pods + j) for j, r in enumerate(tables.reservations) if r]
    rows = np.concatenate((fitting_class, room_rows[holder].ravel(), room_rows.ravel(), [row for row, _ in reserved]))
    variables = np.concatenate(
        (
            np.arange(pods),
            np.repeat(np.arange(pods), resources),
            np.repeat(pods + np.arange(columns), resources),
            [variable for _, variable in reserved],
        )
    )
    values = np.concatenate((np.ones(pods), share.ravel(), -np.ones(columns * resources), np.ones(len(reserved))))
    order = np.lexsort((rows, variables))
    order = order[values[order] != 0]

    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = pods + columns, classes + columns * resources + len(shared)
    lp.col_cost_ = np.concatenate((np.zeros(pods), tables.cost))
    free = np.arange(columns) >= tables.bought  # existing nodes are whole, and there is one of each
    lp.col_lower_ = np.concatenate((np.zeros(pods), free.astype(np.float64)))
    lp.col_upper_ = np.concatenate((np.full(pods, np.inf), np.where(free, 1.0, np.inf)))
    lp.row_lower_ = np.concatenate((tables.counts, np.full(lp.num_row_ - classes, -np.inf)))
    reservation_places = [float(places[reservation]) for reservation in shared]
    lp.row_upper_ = np.concatenate((np.full(classes, np.inf), np.zeros(columns * resources), reservation_places))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(variables[order], np.arange(lp.num_col_ + 1))
    lp.a_matrix_.index_ = rows[order].astype(np.int32)
    lp.a_matrix_.value_ = values[order]

    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(lp)
    solver.run()
    duals = np.array(solver.getSolution().row_dual, dtype=np.float64)
    worth: Floats = np.maximum(-duals[room_rows], 0.0)
    return worth


def _certified(tables: Tables, worth: Floats, places: Mapping[Reservation, int]) -> float:
    """Scale the prices so that the dual solution is feasible, and return its value."""
    total = worth.sum(axis=1)
    premium = dict.fromkeys(places, 0.0)
    scale = np.ones(len(total))
    for j in range(tables.bought):
        reservation = tables.reservations[j]
        if reservation is not None:
            premium[reservation] = max(premium[reservation], float(total[j] - tables.cost[j]))
        elif total[j] > tables.cost[j]:
            scale[j] = tables.cost[j] / total[j]
    worth = worth * scale[:, None]
    unit = np.divide(worth, tables.room, out=np.zeros_like(worth), where=tables.room > 0)
    unit_costs = np.where(tables.fits, unit @ tables.requests.T.astype(np.float64), np.inf).min(axis=0)
    free = worth[tables.bought :].sum() + sum(premium[reservation] * places[reservation] for reservation in places)
    return float(unit_costs @ tables.counts - free)
