"""Pods as the model cluster has them, and which new pod takes the place of one that another controller evicted.

The model must count each pod once. If Karpenter drains a node, the owner of its pods creates others, which the model
must not take for new load: its own node was not drained, so the pod would still run there.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Final

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord

WAITS: Final = ""
"""The node of a pod that waits for one."""
OUTSIDE: Final = "-"
"""The node of a pod that runs on a Node of no NodePool. Tenon does not manage that Node, so the pod is there too."""


@dataclass(frozen=True, slots=True)
class LivePod:
    """A pod that needs a node, as the cluster has it now."""

    record: PodRecord
    pod: Pod
    """As scheduling sees it once it gets another node."""
    outside: bool = False
    """It runs on a Node of no NodePool."""
    node_leaves: bool = False
    """Its Node is being removed, so that its owner may create another pod in its place."""

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.record.uid

    @property
    def ends(self) -> bool:
        """Whether the pod is being deleted."""
        return self.record.deleting

    def created_at(self, created: float) -> LivePod:
        """Return the pod as one that was created then, in seconds since the epoch.

        How long a moved pod rests depends on when it was created, and that must be when the model created it.
        """
        return self if self.pod.created == created else replace(self, pod=replace(self.pod, created=created))


@dataclass(slots=True)
class ModelPod:
    """A pod of the model cluster."""

    live: LivePod
    node: str = WAITS
    """The model's node that it is on, `WAITS` or `OUTSIDE`."""
    since: float = 0.0
    """When it came to the node, or began to wait, in seconds since the epoch."""


def succession(live: LivePod) -> Hashable:
    """Return what a pod and its successor have in common: the owner, the labels that its template gives, and the size.

    The pods of a StatefulSet have a label with their name, so that only the pod of the same name succeeds.
    """
    pod = live.pod
    owner = pod.workload_or_name
    of_template = {key: value for key, value in pod.labels.items() if key not in labels.COPIED_TO_PODS}
    return pod.namespace, owner, tuple(sorted(of_template.items())), tuple(sorted(pod.requests.items()))
