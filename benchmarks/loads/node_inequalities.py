"""Inequalities that the nodes of every plan meet, and the search for one that some numbers of nodes do not meet.

Give each pod of a class a value. The nodes of a plan hold all pods, so the most value that one node of each option can
hold, times the number of such nodes, is at least the value of all pods. If pods of a plan do not fit on some nodes even
where a node may be divided among several packings of it, the dual prices of that linear program are values for which
the inequality is not met.
"""

from __future__ import annotations

import highspy
import numpy as np

from benchmarks.loads.node_contents import NodeContents
from benchmarks.loads.purchases import Flags, Floats, Integers

SCALES = (100, 1_000, 100_000)
"""Values are whole numbers up to this, so that sums are exact. The smallest that does is best for the solver."""
MISSED = 3e-6
"""The part by which an inequality is not met at least: more than the solver's tolerance."""
ROUNDS = 300
NOTHING = np.zeros(0, dtype=np.int32)


class Inequality:
    """``values`` are those of a pod of each class, ``extra`` of any pod on NodePools of each weight."""

    def __init__(self, contents: NodeContents, values: Integers, extra: Integers) -> None:
        """Bound what each option holds. The bounds of options that a solution uses are made exact later."""
        purchases = contents.purchases
        self.values = values
        self._contents = contents
        self._on_options = (values + (purchases.preferred @ extra)[:, None]) * purchases.fits
        self.holds: Integers = contents.at_most(self._on_options)
        """The most value that a node of each option holds."""
        self.needed = int(values @ purchases.counts + extra @ purchases.least)
        """The value of all pods, without those that spread."""
        self.everything = self.needed + int(np.maximum(values, 0) @ purchases.spreading)
        """More than this is no use."""
        self._exact: set[int] = set()

    def sharpen(self, options: Integers) -> bool:
        """Make the bounds of some options exact. Return whether one got lower."""
        lower = False
        for option in options.tolist():
            if option not in self._exact:
                self._exact.add(option)
                best, _ = self._contents.best(option, self._on_options[option])
                if best < self.holds[option]:
                    self.holds[option] = best
                    lower = True
        return lower

    def missed(self, nodes: Floats, spread_pods: Integers | Floats) -> bool:
        """Whether some numbers of nodes, and of pods of each class that spread, do not meet it."""
        needed = self.needed + float(self.values @ spread_pods)
        return float(self.holds @ nodes) < needed - MISSED * max(1.0, abs(needed))


def first_inequalities(contents: NodeContents) -> list[Inequality]:
    """Return those whose values are requests: of all pods, and of pods that may only use the options of a class.

    Others have the value 1 for the pods of one class, or for all pods on NodePools of a weight.
    """
    purchases = contents.purchases
    classes, weights = len(purchases.counts), len(purchases.least)
    sets: list[Flags] = [np.ones(classes, dtype=bool)]
    sets += [np.all(~purchases.fits | purchases.fits[:, [number]], axis=0) for number in range(classes)]
    rows = [np.where(members, requests, 0) for members in sets for requests in purchases.requests.T]
    rows += list(np.eye(classes, dtype=np.int64))
    distinct = {}
    for row in rows:
        if row.any():
            values = row // np.gcd.reduce(row[row > 0])
            distinct[values.tobytes()] = values
    nothing = np.zeros(weights, dtype=np.int64)
    inequalities = [Inequality(contents, values, nothing) for values in distinct.values()]
    nobody = np.zeros(classes, dtype=np.int64)
    inequalities += [Inequality(contents, nobody, extra) for extra in np.eye(weights, dtype=np.int64)]
    return inequalities


class Separation:
    """Finds inequalities that numbers of nodes do not meet. It remembers packings from one question to the next."""

    def __init__(self, contents: NodeContents) -> None:
        """Start without packings."""
        self._contents = contents
        self._packings: dict[int, dict[bytes, Integers]] = {}
        purchases = contents.purchases
        whole = np.maximum(purchases.most @ purchases.requests, 1)
        self._missing: Floats = (purchases.requests / whole).sum(axis=1)
        """What a pod of each class without a place counts."""

    def missed(self, nodes: Floats, spread_pods: Floats) -> Inequality | None:
        """Return an inequality that is not met, or None if the pods fit on the nodes in parts."""
        values, extra = self._prices(nodes, spread_pods)
        highest = max(values.max(initial=0.0), extra.max(initial=0.0))
        if highest <= 0:
            return None
        for scale in SCALES:
            inequality = Inequality(
                self._contents, _whole(values * (scale / highest)), _whole(extra * (scale / highest))
            )
            inequality.sharpen(np.flatnonzero(nodes))
            if inequality.missed(nodes, spread_pods):
                return inequality
        return None

    def _prices(self, nodes: Floats, spread_pods: Floats) -> tuple[Floats, Floats]:
        """Place as much as possible in packings. Return the dual prices; 0 if everything has a place."""
        purchases, contents = self._contents.purchases, self._contents
        options = np.flatnonzero(nodes)
        classes, weights = len(purchases.counts), len(purchases.least)
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        for least in (purchases.counts + spread_pods).tolist() + purchases.least.tolist():
            solver.addRow(float(least), highspy.kHighsInf, 0, NOTHING, np.zeros(0))
        for number in nodes[options].tolist():
            solver.addRow(-highspy.kHighsInf, number, 0, NOTHING, np.zeros(0))
        for row, cost in enumerate([*self._missing.tolist(), *[float(self._missing.mean())] * weights]):
            solver.addCol(cost, 0, highspy.kHighsInf, 1, np.array([row], dtype=np.int32), np.ones(1))

        def add(place: int, pods: Integers) -> None:
            numbers = np.flatnonzero(pods)
            heavy = np.flatnonzero(purchases.preferred[options[place]])
            rows = np.concatenate([numbers, classes + heavy, [classes + weights + place]]).astype(np.int32)
            amounts = np.concatenate([pods[numbers], np.full(len(heavy), pods.sum()), [1]]).astype(np.float64)
            solver.addCol(0.0, 0, highspy.kHighsInf, len(rows), rows, amounts)

        for place, option in enumerate(options.tolist()):
            for pods in self._packings.setdefault(option, {}).values():
                add(place, pods)
        for _ in range(ROUNDS):
            solver.run()
            if solver.getInfo().objective_function_value < MISSED * self._missing.min(initial=1.0):
                break
            duals = np.array(solver.getSolution().row_dual)
            worth, node_worth = np.maximum(duals[: classes + weights], 0.0), -duals[classes + weights :]
            scale = 1e6 / max(worth.max(), 1e-12)
            values, extra = _whole(worth[:classes] * scale), _whole(worth[classes:] * scale)
            before = sum(map(len, self._packings.values()))
            for is_exact in (False, True):
                if sum(map(len, self._packings.values())) > before:
                    break  # packings that are easy to find come first
                for place, option in enumerate(options.tolist()):
                    on_option = (values + purchases.preferred[option] @ extra) * purchases.fits[option]
                    pods = contents.best(option, on_option)[1] if is_exact else contents.filled(option, on_option)
                    packings = self._packings[option]
                    is_worthy = on_option @ pods > scale * node_worth[place] * (1 + MISSED) + 1
                    if is_worthy and pods.tobytes() not in packings:
                        packings[pods.tobytes()] = pods
                        add(place, pods)
            if sum(map(len, self._packings.values())) == before:
                return worth[:classes], worth[classes:]
        return np.zeros(classes), np.zeros(weights)


def _whole(values: Floats) -> Integers:
    whole: Integers = np.floor(values + 1e-6).astype(np.int64)
    return whole
