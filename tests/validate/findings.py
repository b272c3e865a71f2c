"""What the command finds in a manifest."""

from __future__ import annotations

from tests.convert.running import validate

PROVISIONER = """apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata:
  name: default
spec:
  providerRef: {name: default}
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
"""
BETA = """apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata:
  name: default
spec:
  disruption:
    consolidationPolicy: WhenUnderutilized
  template:
    spec:
      nodeClassRef: {name: default}
      requirements: []
"""


def faults(text: str) -> list[tuple[int, str, str, list[str]]]:
    """(line, path, reason, better lines) of each fault."""
    answer = validate("-f", "-", "-o", "json", stdin=text)
    faults = answer.document["faults"]
    assert answer.status == (2 if faults else 0)
    assert answer.document["valid"] is not bool(faults)
    return [(fault["line"], fault["path"], fault["reason"], fault.get("fixed", [])) for fault in faults]


def warnings(text: str) -> list[tuple[int, str]]:
    """(line, reason) of each warning; there is no fault."""
    answer = validate("-f", "-", "-o", "json", stdin=text)
    assert (answer.status, answer.document["faults"]) == (0, [])
    return [(warning["line"], warning["reason"]) for warning in answer.document["warnings"]]
