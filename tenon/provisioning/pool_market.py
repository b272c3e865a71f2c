"""What nodes of a NodePool a pod could run on, as far as its own rules, the NodePool and its limits decide.

It is an estimate for reasons: what DaemonSets need, and rules between pods, are left out of account.
"""

from __future__ import annotations

from collections.abc import Sequence

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import untolerated
from tenon.resources import NODES
from tenon.scheduling.model import OFFERING_KEYS, InstanceType, Pool
from tenon.scheduling.offerings.hourly_cost import COSTS

MAX_KINDS = 50
"""For how many kinds of pods a plan looks up what they could use: each takes milliseconds for each NodePool."""
_ANYTHING = Requirements({})


def kind_of(pod: Pod) -> object:
    """Return what pods have in common that the same nodes fit."""
    return pod.required_terms, pod.volume_terms, pod.tolerations, tuple(sorted(pod.requests.items()))


class PoolMarket:
    """A NodePool with all types of its EC2NodeClass."""

    def __init__(self, pool: Pool, types: Sequence[InstanceType]) -> None:
        """Take the NodePool as the engine has it, and the types, also those that it cannot buy now."""
        self.pool = pool
        self.types = types
        self._room = {
            name: limit - pool.usage.get(name, 0)
            for name, limit in (pool.limits or {}).items()
            if name != NODES and name not in COSTS
        }
        self._labels = frozenset({labels.INSTANCE_TYPE, *OFFERING_KEYS}).union(*(kind.requirements for kind in types))

    def node_requirements(self, pod: Pod) -> list[Requirements]:
        """Return what the labels of its nodes must be like for the pod, for each alternative; none if it cannot be."""
        if untolerated(pod.tolerations, self.pool.taints):
            return []
        own = self.pool.of_nodes
        return [
            own.with_(pod_term)
            for term in pod.required_terms or (_ANYTHING,)
            for of_volumes in pod.volume_terms or (_ANYTHING,)
            if own.allow(pod_term := term.with_(of_volumes), self._labels)
        ]

    def is_within_limits(self, kind: InstanceType) -> bool:
        """Whether the limits of the NodePool leave room for a node of this type."""
        return all(kind.capacity.get(name, 0) <= room for name, room in self._room.items())
