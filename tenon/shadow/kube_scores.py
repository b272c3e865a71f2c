"""The scores by which kube-scheduler chooses one of the nodes that fit, as far as they differ in the model.

They are those of its default profile: LeastAllocated and BalancedAllocation of CPU and memory, TaintToleration, and
PodTopologySpread with the default constraints, which spread the pods of a workload over nodes and zones. Each is 0 to
100 for each node. Sources of the formulas: ``noderesources/least_allocated.go``,
``noderesources/balanced_allocation.go``, ``tainttoleration/taint_toleration.go`` and ``podtopologyspread/scoring.go``
in ``pkg/scheduler/framework/plugins`` of Kubernetes.
"""

from __future__ import annotations

from math import log

import numpy as np
import numpy.typing as npt

from tenon.resources import CPU, MEMORY

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

LEAST_ALLOCATED, BALANCED, SPREAD, TAINTS = 1, 1, 2, 3
"""The weights of the default profile."""
NODE_SKEW, ZONE_SKEW = 3, 5
"""``maxSkew`` of the default constraints."""
MOST = 100
UNSTATED = {CPU: 100, MEMORY: 200 * 2**20}
"""Millicores and bytes that LeastAllocated takes for a pod that states no request of CPU or memory."""
SPREAD_OWNERS = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet"})
"""What must own a pod so that the default constraints spread it. A Service that selects it would do too."""


def least_allocated(requested: Floats, allocatable: Floats) -> Floats:
    """Return how much would be left of each node.

    Args:
        requested: by node and resource, what all pods request with the one that comes.
        allocatable: by node and resource, what there is.
    """
    present = allocatable > 0  # a resource that a node lacks does not count
    free = np.where(present, np.maximum(allocatable - requested, 0) * MOST // np.maximum(allocatable, 1), 0)
    scores: Floats = np.floor(free.sum(axis=1) / np.maximum(present.sum(axis=1), 1))
    return scores


def balanced(before: Floats, requested: Floats, allocatable: Floats) -> Floats:
    """Return how much more alike the parts of CPU and memory that are used would be.

    Args:
        before: by node and resource, what the pods request now.
        requested: the same with the one that comes.
        allocatable: by node and resource, what there is.
    """
    change = _evenness(requested, allocatable) - _evenness(before, allocatable)
    return MOST / 2 + np.trunc((MOST / 2 + change) / 2)


def _evenness(requested: Floats, allocatable: Floats) -> Floats:
    fractions = np.minimum(1, requested / np.maximum(allocatable, 1))
    evenness: Floats = np.floor((1 - np.abs(fractions[:, 0] - fractions[:, 1]) / 2) * MOST)
    return evenness


def spread(on_node: Floats, in_zone: Floats, zones: int) -> Floats:
    """Return how few pods of the workload are on each node and in its zone.

    Args:
        on_node: by node, how many there are.
        in_zone: by node, how many there are in its zone.
        zones: how many zones the nodes have.
    """
    raw = on_node * log(len(on_node) + 2) + (NODE_SKEW - 1) + in_zone * log(zones + 2) + (ZONE_SKEW - 1)
    raw = np.floor(raw + 0.5)
    scores: Floats = np.floor(MOST * (raw.max() + raw.min() - raw) / raw.max())
    return scores


def few_taints(untolerated: Floats) -> Floats:
    """Return how few taints with the effect PreferNoSchedule a pod does not tolerate.

    ``untolerated``: by node, how many there are.
    """
    most = untolerated.max()
    return MOST - (np.floor(MOST * untolerated / most) if most else np.zeros_like(untolerated))
