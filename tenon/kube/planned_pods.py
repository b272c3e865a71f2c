"""The annotations ``tenon.sh/planned-pods`` and ``tenon.sh/planned-pod-groups`` of a NodeClaim: the pods that the claim
was launched for, and which of them are alike.

The format of the first is ``namespace/name=uid,...``. The second has a number for each of these pods. Pods with the
same number had the same specification when they were planned, so binding reads one of them instead of all. Users can
edit annotations, so malformed entries are skipped, and a group counts only for pods of one controller.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.kube.pod import Pod

OF_ONE_TEMPLATE = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "Job"})
"""The kinds of controllers that make all their pods from one template."""
KEPT_NAME = 46
"""Of a long controller's name, its pods' names keep at least so many characters: a generated name has at most 63, and a
random end and the number of an indexed Job's pod take up to 17 of them."""


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that a claim was launched for. The UID distinguishes it from a later pod of the same name."""

    namespace: str
    name: str
    uid: str
    group: str = ""
    """Pods of the same group are alike. Empty if nothing is known to be like it."""

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def parse_planned(text: str) -> list[PlannedPod]:
    """Parse the pods in the text of the annotation."""
    planned = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        path, _, uid = entry.rpartition("=")
        namespace, _, name = path.strip().partition("/")
        if namespace and name and uid.strip():
            planned.append(PlannedPod(namespace, name, uid.strip()))
    return planned


def planned_pods(annotations: Mapping[str, str] | None) -> list[PlannedPod]:
    """Return the pods that a claim with these annotations was launched for."""
    planned = parse_planned((annotations or {}).get(labels.PLANNED_PODS) or "")
    groups = ((annotations or {}).get(labels.PLANNED_POD_GROUPS) or "").split(",")
    if len(groups) != len(planned):
        return planned
    return [replace(pod, group=group.strip()) for pod, group in zip(planned, groups, strict=True)]


def has_same_controller(pod: Pod, other: PlannedPod) -> bool:
    """Whether a pod that was not read is of the same controller as ``pod``, as far as its namespace and name show.

    Without this, who may edit NodeClaims could have any waiting pod bound by the rules of another.
    """
    kind, _, name = pod.workload.partition("/")
    if kind not in OF_ONE_TEMPLATE:
        return False
    if kind == "Deployment":
        name = f"{name}-{pod.labels.get('pod-template-hash', '')}"  # its ReplicaSet
    return other.namespace == pod.namespace and other.name.startswith(f"{name}-"[:KEPT_NAME])


def format_planned_pods(pods: Iterable[Pod]) -> str:
    """Format the annotation. Pods that represent buffers are left out, because they never exist in the cluster."""
    return ",".join(f"{pod.key}={pod.uid}" for pod in _listed(pods))


def format_pod_groups(pods: Iterable[Pod]) -> str:
    """Format the groups of the pods, in the order of `format_planned_pods`; empty if no two pods are alike."""
    listed = _listed(pods)
    numbers: dict[Hashable, int] = {}
    groups = [numbers.setdefault(_likeness(pod), len(numbers)) for pod in listed]
    return ",".join(map(str, groups)) if len(numbers) < len(listed) else ""


def _listed(pods: Iterable[Pod]) -> list[Pod]:
    return sorted((pod for pod in pods if not pod.buffer), key=lambda pod: pod.key)


def _likeness(pod: Pod) -> Hashable:
    """What pods that one controller made from one template have in common.

    Pods of other controllers may differ in what a `Pod` does not have, such as their scheduler. kube-scheduler may
    nominate a pod with a priority for another node, which only a read of this pod shows.
    """
    if pod.workload.partition("/")[0] not in OF_ONE_TEMPLATE or pod.priority > 0:
        return pod.key
    return (
        pod.namespace,
        pod.workload,
        frozenset(pod.labels.items()),
        frozenset(pod.requests.items()),
        pod.required_terms,
        pod.tolerations,
        pod.host_ports,
        pod.priority,
        pod.unsupported,
        pod.rules,
        pod.volume_terms,
        pod.attachments,
    )
