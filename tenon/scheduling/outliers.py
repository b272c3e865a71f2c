"""Find the few pods that fit only on unusual types, so that the sizes of all other nodes are chosen without them.

Sizes are chosen for a load as a whole, and each node must hold the largest of its pods: a pod that asks for eight GPUs
would have every node be of a type with GPUs, and beside one of 3,500Gi there would be no type for both. Such pods get
nodes of their own first; the room beside them is free for others, and what still waits is packed as if they were not.
"""

from __future__ import annotations

import numpy as np

from tenon.resources import CPU, MEMORY
from tenon.scheduling.packing import Load
from tenon.scheduling.template import Template
from tenon.scheduling.type_candidates import Menu, nodes_needed

FEW = 0.1
"""At most this part of the pods counts as few."""


def outliers(template: Template, load: Load) -> tuple[Load, Load]:
    """The pods that do not fit on the type for which the load as a whole costs least, if they are few; and the others.

    What the load costs goes by CPU and memory, which every pod needs.
    """
    menu = Menu(template, template.start, template.limits.allowed(template.start.types))
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
