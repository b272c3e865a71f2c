"""Chooses all nodes of a load within limits at once: their sizes first, as if pods were divisible, and then their pods.

Packings that are bought one after another rarely use up a limit to the last core, so that pods lose their place or
small nodes are bought at the end. Sizes that hold the whole load within the limits are few. They are listed by cost,
and a search with a bounded number of linear programs deals the pods to the nodes of the cheapest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tenon.scheduling.column_generation.columns import NEARLY, NodePacking, NoSolutionError, run
from tenon.scheduling.limited.divisible_load import DivisibleLoad, Terms, dense_program, solved, whole_room
from tenon.scheduling.limited.limited_columns import LimitedMaster
from tenon.scheduling.offerings.type_candidates import Floats, Numbers

if TYPE_CHECKING:
    import highspy

WIDTH = 1.15
"""Nodes may cost at most this part of what they cost by the linear program over packings."""
LOWEST = 0.999
"""Sizes that cost less than this part of it do not hold the pods in practice."""
INFORMED = 0.93
"""If divisible pods cost less than this part of it, sizes alone say too little about a load."""
MAX_SIZES = 60
"""How many sizes are combined."""
MAX_NODES = 8
"""The most nodes."""
MAX_SETS = 100
"""How many sets of as many nodes are extended by another."""
MAX_DEALT = 3
"""To how many sets of nodes pods are dealt."""
MAX_NUMBERS = 160
"""The most numbers that dealing may have to find: nodes times classes of pods."""
MAX_PROGRAMS = 100
"""How many linear programs dealing may take."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of nodes, those that meet most needs first, and what divisible nodes of all sizes cost together."""

    rows: Numbers
    """The option of each size."""
    room: Floats
    """The part of each need (columns) that a node of each size (rows) meets."""
    usage: Floats
    price: Floats
    excess: Floats
    """What a node of each size costs above the worth of its room and of the limits that it uses up."""
    progress: Floats
    """The part of the worth of all needs that a node of each size meets."""
    cost: float


def sized_nodes(master: LimitedMaster, least: float, most: float) -> Iterator[list[NodePacking]]:
    """Yield nodes for as many pods as the program's rations allow, the cheapest first.

    Args:
        master: the program for all pods.
        least: what nodes for them cost by this program.
        most: nodes that cost as much are of no use.

    Raises:
        ProgramFailedError: the solver failed.
    """
    if master.options.conflicts is not None:
        return
    most = min(most, WIDTH * least)
    sizes = _sizes(master, least, most)
    sets = _sets(sizes, master.rations.limits + NEARLY, least, most) if sizes is not None else []
    for rows in sets[:MAX_DEALT]:
        pods = _dealt(master, rows) if len(rows) * len(master.remaining) <= MAX_NUMBERS else None
        if pods is not None:
            yield [master.packing(int(row), own) for row, own in zip(rows, pods, strict=True) if own.any()]


def _requests(master: LimitedMaster) -> Floats:
    return np.where(master.options.amounts < 1, 0.0, master.options.amounts)


def _sizes(master: LimitedMaster, least: float, most: float) -> _Sizes | None:
    """Return the sizes that may be part of nodes that cost less than ``most``; None if they say too little."""
    options, rations, requests = master.options, master.rations, _requests(master)
    sources = rations.preferred.shape[1]
    room = whole_room(options.room, requests)
    served = np.array(
        [(options.allowed & (options.sources == source)[:, None]).any(axis=0) for source in range(sources)]
    )
    load = DivisibleLoad(requests, master.remaining, served * master.remaining, room, options.usage, options.sources)
    terms = Terms(
        limits=rations.limits,
        price=options.price,
        penalty=rations.penalty,
        forced=rations.forced,
        optional=rations.optional,
        forced_in_all=rations.forced_in_all,
        preferred=rations.preferred.astype(float),
        least=rations.least,
    )
    try:
        divisible = solved(load, terms)
    except NoSolutionError:
        return None
    cost = float(divisible.nodes @ options.price)
    if cost < INFORMED * least:
        return None
    rows = np.flatnonzero(divisible.excess <= most - cost)
    rows = rows[np.argsort(divisible.excess[rows], kind="stable")[:MAX_SIZES]]
    need = divisible.pods @ requests
    total = max(float((need * divisible.worth).sum()), NEARLY)
    progress = (room[rows] * divisible.worth[options.sources[rows]]).sum(axis=1) / total
    order = np.argsort(-progress, kind="stable")
    rows, progress = rows[order], progress[order]
    met = (options.sources[rows, None] == np.arange(sources))[:, :, None] * room[rows][:, None, :]
    needed = need > NEARLY
    return _Sizes(
        rows=rows,
        room=met[:, needed] / need[needed],
        usage=options.usage[rows],
        price=options.price[rows],
        excess=divisible.excess[rows],
        progress=progress,
        cost=cost,
    )


def _sets(sizes: _Sizes, limits: Floats, least: float, most: float) -> list[Numbers]:
    """Return sets of nodes that meet all needs within the limits, as rows of the options, the cheapest first."""
    figures = np.hstack([sizes.room, sizes.usage, sizes.price[:, None], sizes.excess[:, None], sizes.progress[:, None]])
    count, needs = sizes.room.shape
    # of each size and all smaller ones: the least excess for progress, and the most room for what is used up of a limit
    pace = _backwards(np.minimum, sizes.excess / np.maximum(sizes.progress, NEARLY))
    usage = np.maximum(sizes.usage, NEARLY * NEARLY)
    rate = _backwards(np.maximum, sizes.room[:, None] / usage[:, :, None])
    complete: list[tuple[float, tuple[int, ...]]] = []
    members, sums = np.zeros((1, 0), dtype=np.int64), np.zeros((1, figures.shape[1]))
    for number in range(MAX_NODES):
        largest = members[:, -1] if number else np.zeros(1, dtype=np.int64)
        parents, added = np.nonzero(np.arange(count) >= largest[:, None])
        longer = sums[parents] + figures[added]
        price, excess, progress = longer[:, -3:].T
        spare = limits - longer[:, needs:-3]
        estimate = sizes.cost + excess + np.maximum(1 - progress, 0.0) * pace[added]
        useful = np.flatnonzero((spare >= 0).all(axis=1) & (np.maximum(price, estimate) < most - NEARLY))
        lacking = 1 - NEARLY - longer[useful, :needs]
        full = (lacking <= 0).all(axis=1)
        complete += [
            (float(price[place]), (*members[parents[place]].tolist(), int(added[place])))
            for place in useful[full].tolist()
            if price[place] >= LOWEST * least
        ]
        reach = (spare[useful][:, :, None] * rate[added[useful]]).min(axis=1, initial=np.inf)
        partial = useful[~full & (lacking <= reach).all(axis=1)]
        partial = partial[np.argsort(estimate[partial], kind="stable")[:MAX_SETS]]
        members, sums = np.hstack([members[parents[partial]], added[partial, None]]), longer[partial]
    return [sizes.rows[list(numbers)] for _, numbers in sorted(complete)]


def _backwards(best: np.ufunc, values: Floats) -> Floats:
    accumulated: Floats = best.accumulate(values[::-1])[::-1]
    return accumulated


def _dealt(master: LimitedMaster, rows: Numbers) -> Numbers | None:
    """Return the pods of each class (columns) for nodes of these options (rows); None if too few have a place."""
    options, rations, counts = master.options, master.rations, master.remaining
    nodes, classes, requests = len(rows), len(counts), _requests(master)
    unit = np.maximum(counts @ requests, 1.0)
    room = whole_room(options.room[rows], requests) / unit
    absent = max(rations.forced_in_all, int(rations.forced.sum()))
    preferred = np.repeat(rations.preferred[:, options.sources[rows]], classes, axis=1).astype(float)
    most = np.where(options.allowed[rows], counts, 0).astype(float)
    solver = dense_program(
        cost=-np.tile(rations.penalty / rations.penalty.min(), nodes),
        columns=(np.zeros(nodes * classes), most.ravel()),
        table=np.vstack(
            [
                np.kron(np.eye(nodes), (requests / unit).T),
                np.tile(np.eye(classes), nodes),
                preferred,
                np.ones((1, nodes * classes)),
            ]
        ),
        rows=(
            np.concatenate(
                [
                    np.full(room.size, -np.inf),
                    counts - np.maximum(rations.optional, rations.forced),
                    rations.least,
                    [counts.sum() - absent],
                ]
            ),
            np.concatenate([room.ravel(), counts - rations.forced, np.full(len(preferred) + 1, np.inf)]),
        ),
    )
    # pods of the smallest node first, because few fit, and the largest of these first, because small ones fill gaps
    order = np.lexsort(
        (
            np.tile(-(requests / np.maximum(requests.max(axis=0), 1.0)).max(axis=1), nodes),
            np.repeat(room.max(axis=1), classes),
        )
    )
    numbers = _WholeNumbers(solver, most.ravel(), order).search()
    return numbers.reshape(nodes, classes) if numbers is not None else None


class _WholeNumbers:
    """Looks for a solution in whole numbers: rounds one number after another, and takes back what leads nowhere."""

    def __init__(self, solver: highspy.Highs, most: Floats, order: Numbers) -> None:
        """Take a program whose columns are numbers from 0 to ``most``, and the order in which they are rounded."""
        self._solver = solver
        self._least, self._most = np.zeros(len(most)), most.copy()
        self._order = order
        self._programs = 0

    def search(self) -> Numbers | None:
        """Return the numbers; None if there are none, or if finding them takes too many programs."""
        self._programs += 1
        try:
            run(self._solver)
        except NoSolutionError:
            return None
        values = np.array(self._solver.getSolution().col_value)
        fractional = np.abs(values - np.round(values)) > NEARLY
        if not fractional.any():
            return np.round(values).astype(np.int64)
        column = int(self._order[fractional[self._order].argmax()])
        before = self._least[column], self._most[column]
        below = float(np.floor(values[column]))
        down, up = (before[0], below), (below + 1, before[1])
        for bounds in (down, up) if values[column] - below < 0.5 else (up, down):
            if self._programs < MAX_PROGRAMS:
                self._bound(column, bounds)
                numbers = self.search()
                if numbers is not None:
                    return numbers
        self._bound(column, before)
        return None

    def _bound(self, column: int, bounds: tuple[float, float]) -> None:
        self._least[column], self._most[column] = bounds
        self._solver.changeColBounds(column, *bounds)
