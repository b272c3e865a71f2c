"""The names of every kind that Tenon defines in a cluster, for those who need no model of them.

`tenon.apis.crd_kinds` has the models too, also of versions before v1, which take a while to load.
"""

from __future__ import annotations

from typing import NamedTuple

from tenon.apis import labels

BUFFER_GROUP = "autoscaling.x-k8s.io"


class Kind(NamedTuple):
    """A kind with its API group, and its versions with the storage version first."""

    name: str
    group: str
    versions: tuple[str, ...]
    scope: str = "Cluster"


KINDS = (
    Kind("NodePool", labels.GROUP, ("v1", "v1beta1")),
    Kind("NodeClaim", labels.GROUP, ("v1", "v1beta1")),
    Kind("EC2NodeClass", labels.AWS_GROUP, ("v1", "v1beta1")),
    Kind("NodeOverlay", labels.GROUP, ("v1alpha1",)),
    Kind("NodeRepairPolicy", labels.TENON_GROUP, ("v1alpha1",)),
    Kind("NodeRollout", labels.TENON_GROUP, ("v1alpha1",)),
    Kind("DisruptionFreeze", labels.TENON_GROUP, ("v1alpha1",)),
    Kind("NodeSchedule", labels.TENON_GROUP, ("v1alpha1",)),
    Kind("CapacityBuffer", BUFFER_GROUP, ("v1beta1",), "Namespaced"),
    Kind("Provisioner", labels.GROUP, ("v1alpha5",)),
    Kind("Machine", labels.GROUP, ("v1alpha5",)),
    Kind("AWSNodeTemplate", labels.AWS_GROUP, ("v1alpha1",)),
)
