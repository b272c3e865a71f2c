"""Manifests of other controllers among those that are simulated: EKS Auto Mode shares the kinds (NC-07)."""

from __future__ import annotations

from pathlib import Path

from tests.simulate.running import POOL, deployment, simulate

AUTO_MODE = """
---
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: auto}
spec:
  weight: 100
  template: {spec: {nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}, requirements: []}}
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: auto-1, uid: u-1, labels: {karpenter.sh/nodepool: auto}}
spec: {nodeClassRef: {group: eks.amazonaws.com, kind: NodeClass, name: default}, requirements: []}
"""


def test_nc07_another_controllers_pool_is_left_out_with_a_note(tmp_path: Path) -> None:
    """Its weight would make it the first choice; nothing of it is bought."""
    answer = simulate(tmp_path, POOL + AUTO_MODE + deployment())
    assert {claim["nodePool"] for claim in answer.plan["nodeClaims"]} == {"default"}
    assert "note: NodePool auto is left out: its nodeClassRef names no EC2NodeClass" in answer.err
