"""The linear program of the lower bound as arrays, reduced in size in ways that keep it a lower bound.

Sums of requests are multiples of their greatest common divisor. So each node's room is first rounded down to such a
multiple: with equal pods, the bound then counts whole pods.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tenon.scheduling.bound_columns import Column, Demand, Reservation

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
    requests = np.array([amounts for (amounts, _), _ in kinds], dtype=np.int64).reshape(len(kinds), len(demand.names))
    counts = np.array([count for _, count in kinds], dtype=np.int64)
    every = [*columns, *nodes]
    rooms = np.array([column.room for column in every], dtype=np.int64).reshape(len(every), len(demand.names))
    open_to = np.array(
        [[column.open_to >> choice & 1 for choice in range(len(demand.choices))] for column in every], dtype=bool
    )
    fits = open_to[:, [choice for (_, choice), _ in kinds]]
    for number in range(len(demand.names)):
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
