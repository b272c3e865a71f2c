"""How many pods have no place in any plan, because of limits: the search for more places can end there.

The pods of all nodes of a NodePool are counted together against the room of these nodes, every type counts with all of
its CPUs, and every term of a pod's node affinity with all types that it allows, so no plan has fewer pods without a
place. The first bound also divides nodes and pods, which takes about two milliseconds. Where it says that one more pod
may have a place, an integer program over whole nodes and pods often says that none can.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

import numpy as np

from tenon.scheduling.column_generation.columns import NEARLY
from tenon.scheduling.limited.divisible_load import DivisibleLoad, Terms, solved, whole_room
from tenon.scheduling.limited.whole_nodes import least_absent
from tenon.scheduling.offerings.limits import counts_nodes
from tenon.scheduling.offerings.type_candidates import Floats, positions
from tenon.scheduling.packing.bins import Load
from tenon.scheduling.packing.fleet import Fleet


def least_unplaced(
    fleets: Sequence[Fleet],
    load: Load,
    shared: Sequence[Mapping[str, int]],
    amounts: Sequence[int],
    reached: int,
) -> int:
    """Return how many pods of a load have no place at least.

    Args:
        fleets: the NodePools, all of whose new nodes may be others.
        load: the pods of their new nodes and those without a place. None has rules about other pods.
        shared: which of the limits each limit of a fleet is, by name.
        amounts: what is left of each limit without any new nodes.
        reached: how many pods have no place in a plan. A bound of as many needs no better one.

    Raises:
        ProgramFailedError: the solver failed.
    """
    counts = np.array([count for _, count in load], dtype=np.int64)
    requests = np.array([pod_class.amounts for pod_class, _ in load], dtype=np.float64)
    rooms, usages, sources, served = [], [], [], np.zeros((len(fleets), len(load)), dtype=np.int64)
    for number, fleet in enumerate(fleets):
        template, table = fleet.template, fleet.template.table
        permitted = template.start.types
        usage = np.zeros((len(table.types), len(amounts)))
        for name, row in shared[number].items():
            if not counts_nodes(name):
                permitted &= table.within(name, amounts[row])
            usage[:, row] = (1.0 if counts_nodes(name) else table.capacities(name)) / max(1, amounts[row])
        for position, (pod_class, count) in enumerate(load):
            if pod_class.tolerates(template.pool.taints) and any(
                template.fitting(state, pod_class.amounts) & permitted
                for state in template.successors(template.start, pod_class)
            ):
                served[number, position] = count
        types = positions(permitted, len(table.types))
        rooms.append(_room(fleet)[types])
        usages.append(usage[types])
        sources.append(np.full(len(types), number))
    room, usage = np.vstack(rooms), np.vstack(usages)
    if not len(room):
        return int(counts.sum())
    every = DivisibleLoad(requests, counts, served, whole_room(room, requests), usage, np.concatenate(sources))
    divisible = solved(
        every,
        Terms(
            limits=np.ones(len(amounts)),
            price=np.zeros(len(room)),
            penalty=np.ones(len(load)),
            forced=np.zeros_like(counts),
            optional=counts,
        ),
    )
    least = ceil(divisible.absent - NEARLY)
    return least if least >= reached else max(least, least_absent(every, np.ones(len(amounts))))


def _room(fleet: Fleet) -> Floats:
    """What a node of each type has for pods at most, next to the DaemonSets that run on it in any case."""
    table, template = fleet.template.table, fleet.template
    least = np.full(table.rooms.shape, np.inf)
    for types, overhead in template.start.groups if template.daemons_are_settled else ():
        rows = positions(types, len(table.types))
        least[rows] = np.minimum(least[rows], np.array(overhead, dtype=np.float64))
    room: Floats = table.rooms - np.where(np.isfinite(least), least, 0.0)
    return room
