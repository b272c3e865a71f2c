"""Finds the few pods that fit only on unusual types, so that they do not affect the sizes of all other nodes.

Sizes are chosen for a load as a whole, and each node must hold the load's largest pod. One pod that requests eight GPUs
would make every node a GPU node. With another pod of 3,500Gi, there would be no type for both. Such pods get their own
nodes first. Other pods may use the room left on these nodes, and the rest is packed as if the outliers did not exist.
"""

from __future__ import annotations

import numpy as np

from tenon.resources import CPU, MEMORY
from tenon.scheduling.packing import Load
from tenon.scheduling.template import Template
from tenon.scheduling.type_candidates import TypeCandidates, nodes_needed

FEW = 0.1
"""The largest share of the pods that counts as few."""


def outliers(template: Template, load: Load) -> tuple[Load, Load]:
    """Split a load into outliers and the other pods. The outliers are empty if they are not few.

    Outliers do not fit on the type for which the whole load costs least, by CPU and memory, which every pod needs.
    """
    menu = TypeCandidates(template, template.start, template.limits.allowed(template.start.types))
    if not len(menu.numbers) or len(load) < 2:
        return [], load
    amounts = np.array([pod_class.amounts for pod_class, _ in load], dtype=np.float64)
    counts = np.array([count for _, count in load], dtype=np.int64)
    usual = [template.table.names.index(name) for name in (CPU, MEMORY)]
    total = (counts @ amounts)[None, usual]
    best = int((nodes_needed(menu.room[:, usual], total)[:, 0] * menu.price).argmin())
    odd = (amounts > menu.room[best]).any(axis=1)
    if not odd.any() or counts[odd].sum() > FEW * counts.sum():
        return [], load
    apart = [pair for pair, alone in zip(load, odd, strict=True) if alone]
    return apart, [pair for pair, alone in zip(load, odd, strict=True) if not alone]
