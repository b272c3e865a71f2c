"""The integer program of a load within limits: whole nodes of each size, and whole pods on the nodes of each NodePool.

Pods are not assigned to single nodes, so the program stays small: it takes about ten milliseconds.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np

from tenon.scheduling.column_generation.columns import MAX_SECONDS, NEARLY, ProgramFailedError
from tenon.scheduling.limited.divisible_load import DivisibleLoad, dense_program
from tenon.scheduling.offerings.type_candidates import Floats, Numbers

MAX_BRANCHES = 50
"""How many nodes of the search tree are visited. The bound holds after any number of them."""
OPTIONS: dict[str, bool | int | float | str] = {
    "presolve": "on",
    "solver": "choose",
    "mip_max_nodes": MAX_BRANCHES,
    "time_limit": MAX_SECONDS,
}


def least_absent(load: DivisibleLoad, limits: Floats) -> int:
    """Return a lower bound on the pods without a place, whichever whole nodes are bought within the limits.

    Args:
        load: the pods and the sizes of nodes.
        limits: the part of each limit that is left.

    Raises:
        ProgramFailedError: the solver failed.
    """
    import highspy  # takes memory in the worker, and only plans with new nodes need it

    best = _undominated(load)
    load = replace(load, room=load.room[best], usage=load.usage[best], sources=load.sources[best])
    sizes, classes, sources = len(load.room), len(load.counts), len(load.served)
    unit = np.maximum(load.counts @ load.requests, 1.0)
    own = load.sources[:, None] == np.arange(sources)
    # columns: nodes of each size, then pods of each class on each source
    room = np.hstack(
        [
            (own[:, :, None] * (load.room / unit)[:, None, :]).reshape(sizes, -1).T,
            np.kron(np.eye(sources), -(load.requests / unit).T),
        ]
    )
    pods = np.hstack([np.zeros((classes, sizes)), np.tile(np.eye(classes), sources)])
    used = np.hstack([load.usage.T, np.zeros((len(limits), sources * classes))])
    infinite = np.inf
    solver = dense_program(
        cost=np.concatenate([np.zeros(sizes), -np.ones(sources * classes)]),
        columns=(
            np.zeros(sizes + sources * classes),
            np.concatenate([np.full(sizes, infinite), load.served.ravel().astype(float)]),
        ),
        table=np.vstack([room, pods, used]),
        rows=(
            np.concatenate([np.zeros(len(room)), np.full(classes + len(limits), -infinite)]),
            np.concatenate([np.full(len(room), infinite), load.counts, limits]),
        ),
    )
    columns = np.arange(sizes + sources * classes, dtype=np.int32)
    solver.changeColsIntegrality(len(columns), columns, np.full(len(columns), highspy.HighsVarType.kInteger))
    for name, value in OPTIONS.items():
        solver.setOptionValue(name, value)
    solver.run()
    status = solver.getModelStatus()
    if status not in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kSolutionLimit):
        raise ProgramFailedError(
            f"HiGHS ended the program for whole nodes with the status {solver.modelStatusToString(status)!r}"
        )
    return ceil(float(load.counts.sum()) + solver.getInfo().mip_dual_bound - NEARLY)


def _undominated(load: DivisibleLoad) -> Numbers:
    """Return the sizes for which no other size of the source has as much room and uses up no more of any limit."""
    goods = np.hstack([load.room, -load.usage])
    order = np.lexsort((load.usage.sum(axis=1), -load.room.sum(axis=1)))
    best: list[int] = []
    waiting = order
    while len(waiting):
        first = int(waiting[0])
        best.append(first)
        worse = (goods[waiting] <= goods[first]).all(axis=1) & (load.sources[waiting] == load.sources[first])
        waiting = waiting[~worse]
    return np.array(sorted(best), dtype=np.int64)
