"""A cluster that several tests of `tenon simulate --disruption` and `tenon explain` read."""

from __future__ import annotations

import json
from typing import Any

from tests.simulate.running import POOL

NOW = "2026-01-01T12:00:00Z"
PATIENT = POOL.replace("spec:\n", "spec:\n  disruption: {consolidateAfter: 10m, budgets: [{nodes: 100%}]}\n", 1)
LABELS = {
    "karpenter.sh/nodepool": "default",
    "topology.kubernetes.io/zone": "us-west-2a",
    "karpenter.sh/capacity-type": "on-demand",
    "kubernetes.io/arch": "amd64",
    "kubernetes.io/os": "linux",
}


def node(name: str, kind: str, cpu: str, **metadata: Any) -> str:
    """A Node of the NodePool, without a NodeClaim."""
    amounts = {"cpu": cpu, "memory": "14Gi", "pods": "58"}
    labels = {**LABELS, "node.kubernetes.io/instance-type": kind, "kubernetes.io/hostname": name}
    return "\n---\n" + json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels, "creationTimestamp": "2026-01-01T00:00:00Z", **metadata},
            "status": {"allocatable": amounts, "capacity": amounts},
        }
    )


def pod(name: str, host: str, cpu: str = "1", **metadata: Any) -> str:
    """A running Pod."""
    spec = {"nodeName": host, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return "\n---\n" + json.dumps({**body, "status": status})


HOLD: dict[str, Any] = {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}
TWO = PATIENT + node("n1", "m5.xlarge", "3900m") + node("n2", "m5.xlarge", "3900m")
SHARED = TWO + pod("a", "n1") + pod("b", "n2", **HOLD)
