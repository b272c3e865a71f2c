"""Maps the fields of older kinds to v1. Comments use it to explain moves, and faults to name the original field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tenon.apis import labels
from tenon.apis.legacy.conversion import PROVISIONER_NAME
from tenon.manifests.paths import Path

Moves = Sequence[tuple[Path, Path]]
"""(path in the old object, path in the v1 object). A path that is not listed does not move."""


def _moves(*pairs: tuple[str, str]) -> Moves:
    return [(tuple(old.split(".")), tuple(new.split("."))) for old, new in pairs]


_SELECTORS = (
    ("spec.amiSelector", "spec.amiSelectorTerms"),
    ("spec.subnetSelector", "spec.subnetSelectorTerms"),
    ("spec.securityGroupSelector", "spec.securityGroupSelectorTerms"),
)
_PROVIDER = [(("spec", "provider", *old.split(".")[1:]), tuple(new.split("."))) for old, new in _SELECTORS]

MOVED: Mapping[tuple[str, str, str], Moves] = {
    ("Provisioner", "v1alpha5", "NodePool"): _moves(
        ("spec.annotations", "spec.template.metadata.annotations"),
        ("spec.labels", "spec.template.metadata.labels"),
        ("spec.taints", "spec.template.spec.taints"),
        ("spec.startupTaints", "spec.template.spec.startupTaints"),
        ("spec.requirements", "spec.template.spec.requirements"),
        ("spec.providerRef", "spec.template.spec.nodeClassRef"),
        ("spec.ttlSecondsAfterEmpty", "spec.disruption.consolidateAfter"),
        ("spec.ttlSecondsUntilExpired", "spec.template.spec.expireAfter"),
        ("spec.consolidation.enabled", "spec.disruption.consolidationPolicy"),
        ("spec.limits.resources", "spec.limits"),
    ),
    ("Provisioner", "v1alpha5", "EC2NodeClass"): [
        *_PROVIDER,
        (("spec", "provider"), ("spec",)),
        (("spec", "kubeletConfiguration"), ("spec", "kubelet")),
    ],
    ("Machine", "v1alpha5", "NodeClaim"): _moves(("spec.machineTemplateRef", "spec.nodeClassRef")),
    ("AWSNodeTemplate", "v1alpha1", "EC2NodeClass"): _moves(*_SELECTORS),
    ("NodePool", "v1beta1", "NodePool"): _moves(
        ("spec.disruption.expireAfter", "spec.template.spec.expireAfter"),
        ("spec.template.spec.nodeClassRef.apiVersion", "spec.template.spec.nodeClassRef.group"),
    ),
    ("NodeClaim", "v1beta1", "NodeClaim"): _moves(("spec.nodeClassRef.apiVersion", "spec.nodeClassRef.group")),
    ("NodePool", "v1beta1", "EC2NodeClass"): _moves(("spec.template.spec.kubelet", "spec.kubelet")),
}


_OWNER: Moves = [(("metadata", "labels", PROVISIONER_NAME), ("metadata", "labels", labels.NODEPOOL))]


def moves_of(old_kind: str, old_version: str, new_kind: str) -> Moves:
    """The moves from an old kind and version to a v1 kind."""
    return [*_OWNER, *MOVED.get((old_kind, old_version.rpartition("/")[2], new_kind), ())]


def new_path(path: Path, moves: Moves) -> Path:
    """Path in the v1 object of a field of the old object."""
    for old, new in moves:
        if path[: len(old)] == old:
            return (*new, *path[len(old) :])
    return path


def old_path(path: Path, moves: Moves) -> Path:
    """Path in the old object of a field of the v1 object. The longest matching move wins."""
    leading = [(old, new) for old, new in moves if path[: len(new)] == new]
    if not leading:
        return path
    old, new = max(leading, key=lambda move: len(move[1]))
    return (*old, *path[len(new) :])
