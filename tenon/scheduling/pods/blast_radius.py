"""Limits how much of a workload one node may carry, so that the loss of a node does not take down too much of it.

A workload is the controller of a pod (`Pod.workload`), even if its pods differ: each pod of a StatefulSet has its own
volumes. Pods without a controller count as one workload per pod class.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil

from tenon.kube.pod import Pod
from tenon.scheduling.model import Node
from tenon.scheduling.pods.hostname_rules import UNBOUNDED
from tenon.scheduling.pods.pod_classes import PodClass, workload_key

WorkloadKey = str | int
"""Identifies a workload."""


class BlastRadius:
    """The rule for one batch."""

    def __init__(self, share: float = 1.0, pods: Iterable[Pod] = (), nodes: Iterable[Node] = ()) -> None:
        """Take the share that one node may carry, and the pods and nodes that hold all pods of each workload."""
        self._share = share
        self.limited = share < 1
        """Whether the rule applies at all."""
        self.new_nodes_only = False
        """Whether the rule no longer applies to existing nodes."""
        self._totals: Counter[WorkloadKey] = Counter()
        if self.limited:
            self._totals.update(map(workload_key, pods))
            self._totals.update(workload_key(pod) for node in nodes for pod in node.pods)

    def most(self, pod_class: PodClass) -> int:
        """How many pods of the class's workload one node may carry.

        The rule does not apply to pods with required affinity on a host, because they may have no other node to go to.
        """
        if not self.limited or pod_class.near:
            return UNBOUNDED
        total = self._totals[pod_class.workload] if pod_class.workload else len(pod_class.origin.pods)
        return max(1, ceil(round(self._share * total, 9)))

    @staticmethod
    def workload(pod_class: PodClass) -> WorkloadKey:
        """The workload of a class, as nodes count it."""
        return pod_class.workload or id(pod_class.origin)
