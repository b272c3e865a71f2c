"""Each rule that no single value breaks, broken and kept, for the kinds that have no table of their own."""

# fmt: off

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.tenon.apis.case import REMOVED, edited, term


@dataclass(frozen=True)
class Broken:
    """Edits to one of the full manifests."""

    base: str
    name: str
    edits: dict[str, Any]

    def made_from(self, manifest: dict[str, Any]) -> dict[str, Any]:
        return edited(manifest, self.edits)


OLD = "template/spec/requirements"
LABELS = "template/metadata/labels"
BROKEN = [
    Broken("an overlay of prices", "price and adjustment", {"priceAdjustment": "+1"}),
    *(Broken("an overlay of prices", f"price {p!r}", {"price": p}) for p in ("0", "12.50", "1.", ".5", "1e3", "$1")),
    *(
        Broken("an overlay of capacity", f"adjustment {text!r}", {"priceAdjustment": text})
        for text in ("+0.5", "-0.5", "+.5", "-10%", "+250%", "-100%", "-100.0%", "-100.1%", "0.5", "10%", "+", "-%")
    ),
    *(
        Broken("an overlay of capacity", f"capacity {name}", {"capacity": {name: "1"}})
        for name in ("cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu")
    ),
    *(
        Broken("an overlay of capacity", f"requires {key}", {"requirements": [term(key, "Exists")]})
        for key in (
            "karpenter.sh/nodepool", "karpenter.sh/x", "kubernetes.io/hostname", "karpenter.k8s.aws/x", "a" * 64,
        )
    ),
    Broken("an overlay of capacity", "NotIn nothing", {"requirements": [term("a", "NotIn")]}),
    Broken("an overlay of capacity", "Lte a word", {"requirements": [term("a", "Lte", "b")]}),
    Broken("a buffer of pods", "both references", {"scalableRef": {"kind": "Deployment", "name": "web"}}),
    Broken("a buffer of pods", "no reference", {"podTemplateRef": REMOVED}),
    Broken("a buffer of pods", "neither replicas nor limits", {"replicas": REMOVED, "limits": REMOVED}),
    Broken("a buffer of pods", "limits only", {"replicas": REMOVED}),
    Broken("a buffer of pods", "limits of nothing", {"replicas": REMOVED, "limits": {}}),
    Broken("an old pool", "WhenEmpty alone", {"disruption/consolidateAfter": REMOVED}),
    Broken("an old pool", "WhenUnderutilized with a time", {"disruption/consolidationPolicy": "WhenUnderutilized"}),
    Broken("an old pool", "WhenUnderutilized with Never",
           {"disruption/consolidationPolicy": "WhenUnderutilized", "disruption/consolidateAfter": "Never"}),
    Broken("an old pool", "a policy of v1", {"disruption/consolidationPolicy": "WhenEmptyOrUnderutilized"}),
    Broken("an old pool", "a schedule alone", {"disruption/budgets": [{"nodes": "0", "schedule": "@daily"}]}),
    Broken("an old pool", "a reason", {"disruption/budgets": [{"nodes": "0", "reasons": ["Empty"]}]}),
    *(
        Broken("an old pool", f"requires {key}", {OLD: [term(key, "Exists")]})
        for key in (
            "kubernetes.io/hostname", "kubernetes.io/x", "example.kubernetes.io/x", "k8s.io/x", "kops.k8s.io/x",
            "node.kubernetes.io/x", "x.node.kubernetes.io/y", "node-restriction.kubernetes.io/x", "kubernetes.io/arch",
            "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "karpenter.sh/nodepool",
            "karpenter.sh/capacity-type", "karpenter.k8s.aws/instance-cpu", "karpenter.k8s.aws/x", "mykubernetes.io/x",
        )
    ),
    Broken("an old pool", "labels of Kubernetes", {LABELS: {"kubernetes.io/x": "y"}}),
    Broken("an old pool", "labels with the pool", {LABELS: {"karpenter.sh/nodepool": "y"}}),
    Broken("an old pool", "Gte", {OLD: [term("a", "Gte", "1")]}),
    Broken("an old pool", "minValues over values", {OLD: [term("a", "In", "b", min_values=2)]}),
    Broken("an old claim", "requires its pool", {"requirements": [term("karpenter.sh/nodepool", "In", "a")]}),
    Broken("an old claim", "requires a closed label", {"requirements": [term("kubernetes.io/x", "Exists")]}),
    Broken("an old class", "role and profile", {"instanceProfile": "mine"}),
    Broken("an old class", "neither role nor profile", {"role": REMOVED}),
    Broken("an old class", "Custom without images", {"amiFamily": "Custom", "amiSelectorTerms": REMOVED}),
    Broken("an old class", "AL2 without images", {"amiFamily": "AL2", "amiSelectorTerms": REMOVED}),
    Broken("an old class", "an alias", {"amiSelectorTerms": [{"alias": "al2023@latest"}]}),
    Broken("an old class", "images by id and name", {"amiSelectorTerms": [{"id": "ami-1", "name": "n"}]}),
    Broken("an old class", "an owner alone", {"amiSelectorTerms": [{"owner": "self"}]}),
    *(
        Broken("an old class", f"tag {tag}", {"tags": {tag: "x"}})
        for tag in ("karpenter.sh/nodepool", "karpenter.sh/managed-by", "kubernetes.io/cluster/a", "", "team")
    ),
    Broken("a provisioner", "provider too", {"provider": {}}),
    Broken("a provisioner", "consolidation too", {"consolidation": {"enabled": True}}),
    Broken("a provisioner", "no provider", {"providerRef": REMOVED}),
    Broken("a provisioner", "GC upside down", {"kubeletConfiguration": {
        "imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 60}}),
    Broken("a provisioner", "soft without grace", {"kubeletConfiguration": {"evictionSoft": {"pid.available": "5%"}}}),
    Broken("a template", "no subnets", {"subnetSelector": REMOVED}),
    Broken("a template", "no groups", {"securityGroupSelector": REMOVED}),
    Broken("a template", "ids and tags", {"subnetSelector": {"aws-ids": "subnet-1", "a": "b"}}),
    Broken("a template", "images by ids and tags", {"amiSelector": {"aws::ids": "ami-1", "a": "b"}}),
    Broken("a template", "Custom without images", {"amiFamily": "Custom", "amiSelector": REMOVED}),
    Broken("a template", "a launch template too", {"launchTemplate": "mine"}),
    Broken("a template", "a launch template alone", dict.fromkeys(
        ("userData", "amiFamily", "amiSelector", "securityGroupSelector", "metadataOptions", "instanceProfile",
         "blockDeviceMappings"), REMOVED) | {"launchTemplate": "mine"}),
    *(
        Broken("a template", f"tag {tag}", {"tags": {tag: "x"}})
        for tag in ("karpenter.sh/provisioner-name", "karpenter.sh/managed-by", "kubernetes.io/cluster/a", "team")
    ),
]

METADATA: dict[str, dict[str, Any]] = {
    "no name": {},
    "an empty name": {"name": ""},
    "a name of capitals": {"name": "Case"},
    "a name with an underscore": {"name": "a_b"},
    "a name with dots": {"name": "a.b-c.0"},
    "a name of 253": {"name": "a" * 253},
    "a name of 254": {"name": "a" * 254},
    "a number as name": {"name": 5},
    "a generated name": {"generateName": "case-"},
    "a generated name of capitals": {"generateName": "Case-"},
    "an unknown field": {"name": "case", "colour": "blue"},
    "a label key with a blank": {"name": "case", "labels": {"a b": "c"}},
    "a label key of 64": {"name": "case", "labels": {"a" * 64: "c"}},
    "a label value with a blank": {"name": "case", "labels": {"a": "b c"}},
    "a label value of 64": {"name": "case", "labels": {"a": "b" * 64}},
    "a number as label": {"name": "case", "labels": {"a": 5}},
    "a truth as annotation": {"name": "case", "annotations": {"a": True}},
    "an annotation key of two domains": {"name": "case", "annotations": {"a/b/c": "d"}},
    "an annotation key of capitals": {"name": "case", "annotations": {"Example.com/Why": "d"}},
    "annotations of 256 KiB": {"name": "case", "annotations": {"a": "b" * (256 * 1024 - 1)}},
    "annotations beyond 256 KiB": {"name": "case", "annotations": {"a": "b" * (256 * 1024)}},
    "no labels": {"name": "case", "labels": None, "annotations": None},
    "a list of labels": {"name": "case", "labels": []},
    "text as finalizers": {"name": "case", "finalizers": "karpenter.sh/termination"},
    "an owner": {"name": "case", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": "b"}]},
    "half an owner": {"name": "case", "ownerReferences": [{"kind": "Node", "name": "a"}]},
}
