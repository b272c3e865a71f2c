"""How much of a workload one node may carry, so that the end of a node does not end too much of it.

A workload is what controls its pods (`Pod.workload`), however unlike they are: the pods of a StatefulSet each have
volumes of their own. Of pods that nothing controls those count as one workload that no rule tells apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import ceil

from tenon.kube.pod import Pod
from tenon.scheduling.hostname_rules import UNBOUNDED
from tenon.scheduling.model import Node
from tenon.scheduling.pod_classes import PodClass, workload_key

Kin = str | int
"""Names a workload."""


class Shares:
    """The rule for one batch."""

    def __init__(self, share: float = 1.0, pods: Iterable[Pod] = (), nodes: Iterable[Node] = ()) -> None:
        """Take the part that a node may carry, and the pods whose number that is a part of."""
        self._share = share
        self.limited = share < 1
        """Whether there is a rule at all."""
        self.new_nodes_only = False
        """Whether nodes that are there are free of it by now."""
        self._totals: Counter[Kin] = Counter()
        if self.limited:
            self._totals.update(map(workload_key, pods))
            self._totals.update(workload_key(pod) for node in nodes for pod in node.pods)

    def most(self, pod_class: PodClass) -> int:
        """How many pods of the class's workload a node may carry.

        Pods that must be beside others are free of the rule, for they may have no other node to go to.
        """
        if not self.limited or pod_class.near:
            return UNBOUNDED
        total = self._totals[pod_class.workload] if pod_class.workload else len(pod_class.origin.pods)
        return max(1, ceil(round(self._share * total, 9)))

    @staticmethod
    def kin(pod_class: PodClass) -> Kin:
        """The workload of a class, as it is counted on nodes."""
        return pod_class.workload or id(pod_class.origin)
