"""Expressions in the kubelet settings of an EC2NodeClass, in a simulation (EC-15, GAT-07)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulate.running import POOL, deployment, simulate

CLASS = """
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: al2023@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
  kubelet: {maxPods: "min(110, max_pods)"}
"""
GATE = ("--set", "AWS_FEATURE_GATES=NodeClassCEL=true")


def test_without_the_gate_nothing_is_launched_from_the_class(tmp_path: Path) -> None:
    plan = simulate(tmp_path, POOL + CLASS + deployment(replicas=1)).plan
    (remainder,) = plan["unschedulable"]
    assert plan["nodeClaims"] == []
    assert "EC2NodeClass default is not ready: kubelet.maxPods: expressions are read with" in remainder["reason"]


def test_with_the_gate_the_class_launches(tmp_path: Path) -> None:
    answer = simulate(tmp_path, POOL + CLASS + deployment(replicas=1), *GATE)
    assert (len(answer.plan["nodeClaims"]), answer.err) == (1, "")


@pytest.mark.parametrize("gate", [(), GATE])
def test_an_expression_that_cannot_be_read_stops_it(tmp_path: Path, gate: tuple[str, ...]) -> None:
    answer = simulate(tmp_path, POOL + CLASS.replace("max_pods)", "pods)") + deployment(replicas=1), *gate)
    (fault,) = answer.faults
    assert fault.startswith(
        "document 2: EC2NodeClass default: spec.kubelet.maxPods: 'min(110, pods)' is not a valid expression"
    )


def test_set30_a_gate_that_does_not_exist_is_a_fault(tmp_path: Path) -> None:
    answer = simulate(tmp_path, POOL, "--set", "AWS_FEATURE_GATES=NodeClassCell=true")
    assert "unknown feature gate 'NodeClassCell': did you mean NodeClassCEL" in answer.err
    assert answer.status == 2
