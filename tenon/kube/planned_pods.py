"""The annotation ``tenon.sh/planned-pods`` of a NodeClaim: the pods that the claim was launched for.

Its format is ``namespace/name=uid,...``. Users can edit annotations, so malformed entries are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tenon.apis import labels
from tenon.kube.pod import Pod


@dataclass(frozen=True, slots=True)
class PlannedPod:
    """A pod that a claim was launched for. The UID distinguishes it from a later pod of the same name."""

    namespace: str
    name: str
    uid: str

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
    return parse_planned((annotations or {}).get(labels.PLANNED_PODS) or "")


def format_planned_pods(pods: Iterable[Pod]) -> str:
    """Format the annotation. Pods that represent buffers are left out, because they never exist in the cluster."""
    return ",".join(f"{pod.key}={pod.uid}" for pod in sorted(pods, key=lambda pod: pod.key) if not pod.buffer)
