"""The part of an integer program that divides pods among zones: no zone has more above the emptiest than is allowed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.loads.purchases import Floats, Integers, Purchases


@dataclass(frozen=True, slots=True)
class SpreadRows:
    """Columns and rows. Of each spread, columns are the pods in its emptiest zone and those in each of its zones."""

    table: Floats
    lower: Floats
    upper: Floats
    most: Floats
    """The most of each column."""
    of_classes: Floats
    """1 for each column that counts pods of a class (rows)."""
    zones: tuple[Integers, ...]
    """The columns of each spread's zones."""

    @property
    def width(self) -> int:
        """How many columns there are."""
        return len(self.most)


def spread_rows(purchases: Purchases) -> SpreadRows:
    """Return the columns and rows for all pods that spread."""
    width = sum(1 + len(spread.zones) for spread in purchases.spreads)
    rows, lower, upper, zones, first = [], [], [], [], 0
    most, of_classes = np.zeros(width), np.zeros((len(purchases.counts), width))
    for spread in purchases.spreads:
        columns = np.arange(first + 1, first + 1 + len(spread.zones))
        zones.append(columns)
        most[[first, *columns]] = spread.most
        for column, number in zip(columns.tolist(), spread.classes, strict=True):
            if number is not None:
                of_classes[number, column] = 1
            row = np.zeros(width)
            row[[column, first]] = 1, -1
            rows.append(row)
            lower.append(0)
            upper.append(spread.max_skew)
        row = np.zeros(width)
        row[columns] = 1
        rows.append(row)
        lower.append(spread.pods)
        upper.append(spread.pods)
        first += 1 + len(spread.zones)
    return SpreadRows(
        np.array(rows).reshape(len(rows), width),
        np.array(lower, dtype=np.float64),
        np.array(upper, dtype=np.float64),
        most,
        of_classes,
        tuple(zones),
    )
