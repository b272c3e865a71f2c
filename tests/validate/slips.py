"""Slips that people make in manifests of today, with the line that is better; right manifests next to them."""

from __future__ import annotations

from dataclasses import dataclass

POOL = """apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - key: karpenter.sh/capacity-type
          operator: In
          values: ["spot"]
"""
CLASS = """apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata:
  name: default
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""
SOUND = [
    POOL,
    CLASS,
    POOL.replace("karpenter.sh/capacity-type", "karpenter.k8s.aws/instance-cpu").replace('["spot"]', '["4", "8"]'),
    *(
        POOL.replace("      nodeClassRef", f"      expireAfter: {text}\n      nodeClassRef")
        for text in ("720h", "1h30m", '"90s"', "Never", "'0s'")
    ),
]
"""Manifests without a fault."""


@dataclass(frozen=True)
class Slip:
    """A manifest with one fault: its line and field, and the line as it should be."""

    text: str
    line: int
    path: str
    better: str

    @property
    def fixed_lines(self) -> str:
        """The manifest with the better line."""
        lines = self.text.splitlines()
        old = lines[self.line - 1]
        lines[self.line - 1] = old[: len(old) - len(old.lstrip())] + self.better
        return "\n".join(lines) + "\n"


def _slip(old: str, new: str, line: int, path: str, better: str) -> Slip:
    assert old in POOL
    return Slip(POOL.replace(old, new), line, path, better)


def _duration(field: str, written: str, better: str) -> Slip:
    new = f"      {field}: {written}\n      nodeClassRef"
    return _slip("      nodeClassRef", new, 8, f"spec.template.spec.{field}", f"{field}: {better}")


def _value(written: str, line: int, path: str, better: str) -> Slip:
    text = POOL.replace("karpenter.sh/capacity-type", "karpenter.k8s.aws/instance-cpu")
    return Slip(text.replace('values: ["spot"]', written), line, f"{_TERM}.{path}", better)


_TERM = "spec.template.spec.requirements[0]"
SLIPS = [
    _value("values: [4, 8]", 12, "values", 'values: ["4", "8"]'),
    _value("values: [spot, 4]", 12, "values[1]", 'values: [spot, "4"]'),
    _value("values:\n          - true", 13, "values[0]", '- "true"'),
    _value("values: spot", 12, "values", "values: [spot]"),
    _slip("operator: In", "operator: in", 11, f"{_TERM}.operator", "operator: In"),
    _slip(
        "key: karpenter.sh/capacity-type",
        'key: " karpenter.sh/capacity-type"',
        10,
        f"{_TERM}.key",
        "- key: karpenter.sh/capacity-type",
    ),
    _slip("spec:\n  template", 'spec:\n  weight: "10"\n  template', 6, "spec.weight", "weight: 10"),
    _slip("spec:\n  template", "spec:\n  limit: {cpu: 5}\n  template", 6, "spec.limit", "limits: {cpu: 5}"),
    _slip("name: default\nspec", "name: Default\nspec", 4, "metadata.name", "name: default"),
    _slip(
        "name: default\nspec",
        "name: default\n  labels: {a: 5} # five\nspec",
        5,
        "metadata.labels.a",
        'labels: {a: "5"} # five',
    ),
    _slip(
        "{group: karpenter.k8s.aws, kind",
        "{apiVersion: karpenter.k8s.aws/v1beta1, kind",
        8,
        "spec.template.spec.nodeClassRef.apiVersion",
        "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}",
    ),
    _slip(
        "spec:\n  template",
        "spec:\n  disruption: {consolidationPolicy: WhenUnderutilized}\n  template",
        6,
        "spec.disruption.consolidationPolicy",
        "disruption: {consolidationPolicy: WhenEmptyOrUnderutilized}",
    ),
    _slip(
        "    spec:\n      node",
        "    metadata: {annotations: {karpenter.sh/do-not-disrupt: true}}\n    spec:\n      node",
        7,
        "spec.template.metadata.annotations.karpenter.sh/do-not-disrupt",
        'metadata: {annotations: {karpenter.sh/do-not-disrupt: "true"}}',
    ),
    _duration("expireAfter", "30d", "720h"),
    _duration("expireAfter", "1.5h", "1h30m"),
    _duration("expireAfter", "720H", "720h"),
    _duration("expireAfter", "never", "Never"),
    _duration("expireAfter", "2592000", "2592000s"),
    _duration("expireAfter", '"30"', "30s"),
    _duration("expireAfter", "10 minutes", "10m"),
    _duration("terminationGracePeriod", "1w", "168h"),
    _duration("terminationGracePeriod", "90000ms", "1m30s"),
]
