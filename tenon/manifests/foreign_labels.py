"""Labels of other node provisioners, which choose nothing on Karpenter's nodes although a requirement may name them.

A requirement on a label that Karpenter does not know makes its nodes carry the label. That hides the mistake.
"""

from __future__ import annotations

from collections.abc import Mapping

from tenon.apis import labels

_OTHERS = "EKS managed node groups"
_SAME: Mapping[str, tuple[str, str]] = {
    "eks.amazonaws.com/capacityType": (_OTHERS, f"{labels.CAPACITY_TYPE}, with spot or on-demand"),
    "eks.amazonaws.com/nodegroup": (_OTHERS, labels.NODEPOOL),
    "eks.amazonaws.com/nodegroup-image": (_OTHERS, ""),
    "eks.amazonaws.com/compute-type": ("Fargate and EKS Auto Mode", ""),
    "node.kubernetes.io/lifecycle": (
        "node groups of kops and eksctl",
        f"{labels.CAPACITY_TYPE}, with spot or on-demand",
    ),
    "cloud.google.com/gke-spot": ("GKE", f"{labels.CAPACITY_TYPE}, with spot"),
    "kubernetes.azure.com/scalesetpriority": ("AKS", f"{labels.CAPACITY_TYPE}, with spot"),
}
_DOMAINS: Mapping[str, str] = {
    "alpha.eksctl.io": "eksctl",
    "cloud.google.com": "GKE",
    "kubernetes.azure.com": "AKS",
    "karpenter.azure.com": "Karpenter on Azure",
    "kops.k8s.io": "kops",
}
_AUTO_MODE = "eks.amazonaws.com/instance-"


def foreign_label(key: str) -> str:
    """Return a warning about the key of a requirement that only others set; empty for any other key."""
    setter, instead = _SAME.get(key, ("", ""))
    if key.startswith(_AUTO_MODE):
        setter, instead = "EKS Auto Mode", f"{labels.AWS_GROUP}/instance-{key.removeprefix(_AUTO_MODE)}"
        instead = instead if instead in labels.WELL_KNOWN else ""
    setter = setter or _DOMAINS.get(key.rpartition("/")[0], "")
    if not setter:
        return ""
    advice = f": use {instead}" if instead else ": remove it"
    return (
        f"{key} is a label of {setter}; on nodes of a NodePool it is an ordinary label and chooses no instance{advice}"
    )
