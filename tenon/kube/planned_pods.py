"""The annotation ``tenon.sh/planned-pods`` of a NodeClaim: the pods that the claim was bought for.

It reads ``namespace/name=uid,...``. People may edit annotations, so entries that cannot be read are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenon.apis import labels
from tenon.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that a claim was bought for; a new pod of the same name has another UID and was not planned."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


def parse_planned(text: str) -> list[PlannedPod]:
    """The pods that the text of the annotation names."""
    planned = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        path, _, uid = entry.rpartition("=")
        namespace, _, name = path.strip().partition("/")
        if namespace and name and uid.strip():
            planned.append(PlannedPod(namespace, name, uid.strip()))
    return planned


def planned_pods(annotations: Mapping[str, str] | None) -> list[PlannedPod]:
    """The pods that a claim with these annotations was bought for."""
    return parse_planned((annotations or {}).get(labels.PLANNED_PODS) or "")


def format_planned_pods(pods: Iterable[Pod]) -> str:
    """The text of the annotation; pods that stand for buffers are left out, because they never come to a node."""
    return ",".join(f"{pod.key}={pod.uid}" for pod in sorted(pods, key=lambda pod: pod.key) if not pod.buffer)
