"""The program in which pods and nodes are divisible: which sizes of nodes hold a load within limits.

It has a row for each resource of each source of nodes, one for each class of pods and one for each limit, so it takes
about a millisecond. No plan is better by its measure than its solution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tenon.scheduling.column_generation.columns import new_solver, run
from tenon.scheduling.offerings.type_candidates import Floats, Numbers

if TYPE_CHECKING:
    import highspy


@dataclass(frozen=True, slots=True)
class DivisibleLoad:
    """Pods, and the sizes of nodes that may hold them."""

    requests: Floats
    """What a pod of each class (rows) requests of each resource."""
    counts: Numbers
    """The pods of each class."""
    served: Numbers
    """How many pods of each class (columns) each source of nodes (rows) may hold."""
    room: Floats
    """What a node of each size (rows) has of each resource."""
    usage: Floats
    """The part of each limit (columns) that a node of each size (rows) uses up."""
    sources: Numbers
    """The source of each size."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What nodes and absent pods cost, and what the solution must respect."""

    limits: Floats
    """The part of each limit that is left."""
    price: Floats
    """Of a node of each size."""
    penalty: Floats
    """Of a pod of each class without a place."""
    forced: Numbers
    """How many pods of each class have no place at least."""
    optional: Numbers
    """How many may have none."""
    forced_in_all: int = 0
    preferred: Floats | None = None
    """1 for each source (columns) that counts for a weight of NodePools (rows)."""
    least: Numbers | None = None
    """How many pods the sources of each weight hold at least."""


@dataclass(frozen=True, slots=True)
class DivisibleNodes:
    """A solution."""

    nodes: Floats
    """How many of each size."""
    pods: Floats
    """How many of each class (columns) each source (rows) holds."""
    absent: float
    """How many have no place."""
    excess: Floats
    """What a node of each size costs above the worth of its room and of the limits that it uses up."""
    worth: Floats
    """What the room of each resource (columns) is worth on each source (rows)."""


def whole_room(room: Floats, requests: Floats) -> Floats:
    """Round room down to what pods can use: sums of requests are multiples of their greatest common divisor."""
    step = np.maximum(np.gcd.reduce(requests.astype(np.int64), axis=0, initial=0), 1)
    rounded: Floats = np.floor(room / step) * step
    return rounded


def solved(load: DivisibleLoad, terms: Terms) -> DivisibleNodes:
    """Solve the program.

    Raises:
        ProgramFailedError: the solver failed, or no nodes meet the terms.
    """
    sizes, classes = len(load.room), len(load.counts)
    sources, resources = len(load.served), load.room.shape[1]
    pairs = sources * classes
    unit = np.maximum(load.counts @ load.requests, 1.0)
    own = load.sources[:, None] == np.arange(sources)
    preferred = np.zeros((0, sources)) if terms.preferred is None else terms.preferred
    least = np.zeros(0) if terms.least is None else terms.least
    # columns: nodes of each size, pods of each class on each source, absent pods of each class
    room = np.hstack(
        [
            (own[:, :, None] * (load.room / unit)[:, None, :]).reshape(sizes, -1).T,
            np.kron(np.eye(sources), -(load.requests / unit).T),
            np.zeros((sources * resources, classes)),
        ]
    )
    every_pod = np.hstack([np.zeros((classes, sizes)), np.tile(np.eye(classes), sources + 1)])
    limits = np.hstack([load.usage.T, np.zeros((len(terms.limits), pairs + classes))])
    weights = np.hstack(
        [np.zeros((len(least), sizes)), np.repeat(preferred, classes, axis=1), np.zeros((len(least), classes))]
    )
    in_all = np.concatenate([np.zeros(sizes + pairs), np.ones(classes)])[None]
    infinite, free = np.inf, np.zeros(sources * resources)
    solver = dense_program(
        cost=np.concatenate([terms.price, np.zeros(pairs), terms.penalty]),
        columns=(
            np.concatenate([np.zeros(sizes + pairs), terms.forced]),
            np.concatenate([np.full(sizes, infinite), load.served.ravel(), np.maximum(terms.optional, terms.forced)]),
        ),
        table=np.vstack([room, every_pod, limits, weights, in_all]),
        rows=(
            np.concatenate([free, load.counts, np.full(len(limits), -infinite), least, [max(terms.forced_in_all, 0)]]),
            np.concatenate([free + infinite, load.counts, terms.limits, np.full(len(least) + 1, infinite)]),
        ),
    )
    run(solver)
    solution = solver.getSolution()
    values = np.array(solution.col_value)
    return DivisibleNodes(
        nodes=values[:sizes],
        pods=values[sizes : sizes + pairs].reshape(sources, classes),
        absent=float(values[sizes + pairs :].sum()),
        excess=np.maximum(np.array(solution.col_dual)[:sizes], 0.0),
        worth=np.maximum(np.array(solution.row_dual)[: len(free)], 0.0).reshape(sources, resources) / unit,
    )


def dense_program(
    cost: Floats, columns: tuple[Floats, Floats], table: Floats, rows: tuple[Floats, Floats]
) -> highspy.Highs:
    """Return a solver with a linear program: costs, bounds of its columns, coefficients, and bounds of its rows."""
    import highspy  # takes memory in the worker, and only plans with new nodes need it

    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = table.shape
    program.col_cost_ = cost
    program.col_lower_, program.col_upper_ = columns
    program.row_lower_, program.row_upper_ = rows
    holders, places = np.nonzero(table.T)
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_ = np.searchsorted(holders, np.arange(len(cost) + 1)).astype(np.int32)
    program.a_matrix_.index_ = places.astype(np.int32)
    program.a_matrix_.value_ = table.T[holders, places]
    solver = new_solver()
    solver.passModel(program)
    return solver
