"""What a node can hold at most, if every pod has a value: a knapsack problem with several resources.

The answers are upper bounds in any case, because inequalities of the bound over whole nodes rest on them.
"""

from __future__ import annotations

import highspy
import numpy as np

from benchmarks.loads.purchases import Flags, Floats, Integers, Purchases
from tenon.scheduling.limited.divisible_load import dense_program

RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""How much a node's memory counts for its CPU, where resources are weighed against each other."""
SECONDS = 2.0
"""The most that one integer program may take. Its bound holds then too."""
NEARLY = 1e-4
"""Values are whole numbers, so this much above one is the solver's tolerance."""


class NodeContents:
    """The contents of one node of each option."""

    def __init__(self, purchases: Purchases) -> None:
        """Take the pods and options of a plan."""
        self.purchases = purchases
        requests, room = purchases.requests, purchases.room
        fitting = np.where(purchases.most > 0, purchases.most, 0) * purchases.fits
        for resource in range(requests.shape[1]):
            requested = requests[:, resource]
            whole = room[:, resource, None] // np.maximum(requested, 1)
            fitting = np.where(requested > 0, np.minimum(fitting, whole), fitting)
        self.most: Integers = fitting
        """The most pods of each class (columns) on a node of each option (rows)."""
        self._answers: dict[tuple[int, bytes], tuple[int, Integers]] = {}

    def at_most(self, values: Integers) -> Integers:
        """Return a bound on the value of a node of each option.

        Resources are weighed against each other in a few ways. For each, pods may be divided and fill a single
        resource in the order of their value for it, which is never worth less than whole pods in all resources.

        Args:
            values: of a pod of each class (columns) on a node of each option (rows).
        """
        room = np.maximum(self.purchases.room.astype(np.float64), 1e-30)
        least: Floats = np.full(len(room), np.inf)
        most = np.where(values > 0, self.most, 0)
        for weights in _weights(room.shape[1]):
            size = np.maximum((weights / room) @ self.purchases.requests.T.astype(np.float64), 1e-15)
            order = np.argsort(-values / size, axis=1, kind="stable")
            sizes, worth, counts = (np.take_along_axis(table, order, 1).T.copy() for table in (size, values, most))
            free, total = np.full(len(room), weights.sum() * (1 + 1e-9)), np.zeros(len(room))
            for own_size, own_worth, count in zip(sizes, worth, counts, strict=True):
                pods = np.minimum(free / own_size, count)
                total += pods * own_worth
                free -= pods * own_size
            least = np.minimum(least, total)
        bound: Integers = np.floor(least * (1 + 1e-9) + NEARLY).astype(np.int64)
        return bound

    def filled(self, option: int, values: Integers) -> Integers:
        """Return pods that fit on a node of an option, those of most value for the room that they take first."""
        requests, most = self.purchases.requests, np.where(values > 0, self.most[option], 0)
        useful = np.flatnonzero(most)
        best = np.zeros_like(most)
        for weights in _weights(requests.shape[1]):
            size = requests[useful] @ (weights / np.maximum(self.purchases.room[option], 1e-30))
            free, pods = self.purchases.room[option].copy(), np.zeros_like(most)
            for number in useful[np.argsort(-values[useful] / np.maximum(size, 1e-15), kind="stable")].tolist():
                requested = requests[number]
                pods[number] = min(
                    most[number], (free[requested > 0] // requested[requested > 0]).min(initial=most[number])
                )
                free -= pods[number] * requested
            best = max(best, pods, key=lambda candidate: int(values @ candidate))
        return best

    def best(self, option: int, values: Integers) -> tuple[int, Integers]:
        """Return a bound on the value of a node of an option, and pods that fit and reach it if it is exact."""
        key = (option, values.tobytes())
        if key not in self._answers:
            self._answers[key] = self._solved(option, values)
        return self._answers[key]

    def _solved(self, option: int, values: Integers) -> tuple[int, Integers]:
        most = np.where(values > 0, self.most[option], 0)
        classes = np.flatnonzero(most)
        requests, room = self.purchases.requests[classes], self.purchases.room[option]
        scarce = np.flatnonzero(most[classes] @ requests > room)
        if not len(scarce):
            return int(values @ most), most
        step = np.gcd.reduce(requests[:, scarce], axis=0)
        solver = dense_program(
            -values[classes].astype(np.float64),
            (np.zeros(len(classes)), most[classes].astype(np.float64)),
            (requests[:, scarce] // step).T.astype(np.float64),
            (np.full(len(scarce), -np.inf), (room[scarce] // step).astype(np.float64)),
        )
        columns = np.arange(len(classes), dtype=np.int32)
        solver.changeColsIntegrality(len(columns), columns, np.full(len(columns), highspy.HighsVarType.kInteger))
        for name, value in (("presolve", "on"), ("solver", "choose"), ("time_limit", SECONDS), ("mip_rel_gap", 0.0)):
            solver.setOptionValue(name, value)
        solver.run()
        pods = np.zeros_like(most)
        pods[classes] = np.round(np.array(solver.getSolution().col_value)).astype(np.int64)
        if not _fit(pods, most, self.purchases.requests, room):
            pods[:] = 0
        return int(np.floor(NEARLY - solver.getInfo().mip_dual_bound)), pods


def _weights(resources: int) -> list[Floats]:
    """Each resource alone, CPU and memory together in a few ways, and all."""
    single = list(np.eye(resources))
    if resources == 1:
        return single
    pairs = [single[0] + ratio * single[1] for ratio in RATIOS]
    return [*single, *pairs, np.ones(resources)]


def _fit(pods: Integers, most: Integers, requests: Integers, room: Integers) -> bool:
    fits: Flags = pods @ requests <= room
    return bool(fits.all() and (pods <= most).all() and (pods >= 0).all())
