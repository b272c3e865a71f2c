"""Computes the least that any plan can cost, and so how far a plan can be from the optimum.

The bound is a linear program in which nodes and pods are divisible, and the only rules are resources, taints and node
affinity. `lower_bound_of_sizing` adds the rules by which a plan sizes nodes, so that a plan and its bound play the same
game. The result does not rely on the precision of the HiGHS solver: the solver's dual prices (what the room of each
kind of node is worth) become a feasible dual solution, whose value is a lower bound whatever the solver's tolerances.

Sums of requests are multiples of their greatest common divisor, so each node's room is first rounded down to such a
multiple: with equal pods, the bound then counts whole pods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tenon.scheduling.bound.bound_columns import NO_RULES, Column, Demand, Reservation, existing, read_demand, to_buy
from tenon.scheduling.bound.sizing_rules import SizingRules, sizing_rules
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.offerings.type_table import TypeTables

MAX_CLASSES = 500
"""The number of kinds of pods above which similar kinds are merged."""

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True)
class Tables:
    """The program. ``fits[j, c]`` is True if pods of class c may go to column j. The columns for sale come first."""

    requests: Integers
    counts: Integers
    room: Floats
    cost: Floats
    fits: Flags
    reservations: list[Reservation | None]
    bought: int
    """How many columns are for sale. The others are the free room of existing nodes."""


def tabulate(demand: Demand, columns: list[Column], nodes: list[Column]) -> Tables:
    """Return the tables of all columns, without classes that fit nowhere. Like existing nodes are summed."""
    kinds = list(demand.counts.items())
    requests = np.array([amounts for (amounts, _), _ in kinds], dtype=np.int64).reshape(len(kinds), demand.width)
    counts = np.array([count for _, count in kinds], dtype=np.int64)
    every = [*columns, *nodes]
    rooms = np.array([column.room for column in every], dtype=np.int64).reshape(len(every), demand.width)
    open_to = np.array(
        [[column.open_to >> choice & 1 for choice in range(len(demand.choices))] for column in every], dtype=bool
    )
    fits = open_to[:, [choice for (_, choice), _ in kinds]]
    for number in range(demand.width):
        fits &= requests[None, :, number] <= rooms[:, None, number]

    # a class that fits no column for sale is unschedulable, or runs on an existing node at no cost
    fits_some_type = fits[: len(columns)].any(axis=0)
    fits, requests, counts = fits[:, fits_some_type], requests[fits_some_type], counts[fits_some_type]
    packed = np.packbits(fits, axis=1)
    steps: dict[bytes, Integers] = {}
    for row, row_fits in zip(packed, fits, strict=True):
        if row.tobytes() not in steps:
            steps[row.tobytes()] = np.maximum(np.gcd.reduce(requests[row_fits], axis=0, initial=0), 1)
    step = np.array([steps[row.tobytes()] for row in packed]).reshape(rooms.shape)
    rounded_rooms = (rooms // step * step).astype(np.float64)

    summed: dict[bytes, int] = {}
    useful = list(range(len(columns)))
    for position in range(len(columns), len(every)):
        first = summed.setdefault(packed[position].tobytes(), position)
        if first == position:
            useful.append(position)
        else:
            rounded_rooms[first] += rounded_rooms[position]
    useful = [position for position in useful if fits[position].any()]
    return Tables(
        requests=requests,
        counts=counts,
        room=rounded_rooms[useful],
        cost=np.array([every[position].price for position in useful]),
        fits=fits[useful],
        reservations=[every[position].reservation for position in useful],
        bought=sum(1 for position in useful if position < len(columns)),
    )


def pruned(tables: Tables) -> Tables:
    """Drop each column for sale that another one dominates: open to the same pods, and as much room per dollar.

    The linear program may buy fractions of nodes, so this does not change the bound.
    """
    packed = np.packbits(tables.fits, axis=1)
    order = sorted(range(tables.bought), key=lambda j: (-int(tables.fits[j].sum()), tables.cost[j], j))
    undominated: list[int] = []
    limited = [j for j in range(tables.bought) if tables.reservations[j]]
    for j in order:
        if tables.reservations[j]:
            continue
        undominated_rows = np.array(undominated, dtype=np.int64)
        room, cost = tables.room[undominated_rows], tables.cost[undominated_rows]
        better = undominated_rows[(room * tables.cost[j] >= tables.room[j] * cost[:, None]).all(axis=1)]
        if not len(better) or (packed[j] & ~packed[better]).any(axis=1).all():
            undominated.append(j)
    rows = [*sorted([*undominated, *limited]), *range(tables.bought, len(tables.cost))]
    return Tables(
        requests=tables.requests,
        counts=tables.counts,
        room=tables.room[rows],
        cost=tables.cost[rows],
        fits=tables.fits[rows],
        reservations=[tables.reservations[j] for j in rows],
        bought=len(undominated) + len(limited),
    )


def merged(tables: Tables) -> Tables:
    """Merge classes that may go to the same columns and whose requests agree in their leading bits."""
    packed = np.packbits(tables.fits, axis=0).T
    for bits in (62, 7, 6, 5, 4, 3):
        shift = np.maximum(np.frexp(tables.requests.astype(np.float64))[1] - bits, 0).astype(np.int64)
        rounded = tables.requests >> shift << shift
        classes: dict[tuple[bytes, bytes], int] = {}
        for c in range(len(tables.counts)):
            classes.setdefault((packed[c].tobytes(), rounded[c].tobytes()), c)
        if len(classes) <= MAX_CLASSES:
            break
    firsts = list(classes.values())
    number = {key: position for position, key in enumerate(classes)}
    counts = np.zeros(len(firsts), dtype=np.int64)
    for c, count in enumerate(tables.counts):
        counts[number[packed[c].tobytes(), rounded[c].tobytes()]] += count
    return replace(tables, requests=rounded[firsts], counts=counts, fits=tables.fits[:, firsts])


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


def lower_bound_of_sizing(problem: Problem, plan: Plan, tables: TypeTables | None = None) -> float:
    """Return the least `sizing_cost` of any plan for the pods that the plan places, in dollars an hour.

    Such plans keep the rules that this one keeps (`SizingRules`).
    """
    left_out = plan.unschedulable.keys() | plan.unreached
    rules = sizing_rules(problem, plan, tables)
    (bound,) = lower_bounds(problem, [problem.node_charge], left_out=left_out, rules=rules, tables=tables)
    return bound


def lower_bounds(
    problem: Problem,
    node_charges: Iterable[float],
    *,
    left_out: Collection[str] = (),
    rules: SizingRules = NO_RULES,
    tables: TypeTables | None = None,
) -> tuple[float, ...]:
    """Return `lower_bound` for each of the charges. Plans that break one of the ``rules`` do not count.

    ``tables``: those that other questions about the problem use too.
    """
    out = frozenset(left_out)
    demand = read_demand((pod for pod in problem.pods if not pod.unsupported and pod.key not in out), rules)
    if not demand.counts:
        return tuple(0.0 for _ in node_charges)
    columns, places = to_buy(problem, demand, tables or TypeTables(), rules)
    nodes = existing(problem, demand)

    def bound(charge: float) -> float:
        if not columns:
            return 0.0
        priced = [replace(column, price=column.price + charge) for column in columns]
        program = merged(pruned(tabulate(demand, priced, nodes)))
        if not len(program.counts):
            return 0.0
        return max(0.0, _certified(program, _dual_prices(program, places), places) * (1 - SAFETY))

    return tuple(map(bound, node_charges))


def _dual_prices(tables: Tables, places: Mapping[Reservation, int]) -> Floats:
    """Solve the program. Return the dual price of a node's whole room, per column and resource."""
    import highspy  # only a bound for pods that are placed needs it

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
