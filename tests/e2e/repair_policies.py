"""Repair policies for the NodePools of single tests, and the conditions of Nodes that they are about."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEREPAIRPOLICIES
from sandbox.cluster import Sandbox

Object = dict[str, Any]
DEADLOCK: Object = {"conditionType": "KernelDeadlock", "conditionStatus": "True", "tolerationDuration": "2s"}
"""The fault of a policy that replaces a node whose kernel has a deadlock."""


class Policies:
    """NodeRepairPolicies for single NodePools."""

    def __init__(self, kube: Kube, sandbox: Sandbox) -> None:
        self._kube = kube
        self._sandbox = sandbox
        self.names: list[str] = []

    async def state(self, pool: str, *faults: Object, **spec: Any) -> str:
        """State the policy of a NodePool."""
        label = "example.com/pool"
        self._sandbox.kubectl("label", "nodepool", pool, f"{label}={pool}")
        selector = {"matchLabels": {label: pool}}
        body = {"metadata": {"name": pool}, "spec": {"nodePoolSelector": selector, "faults": list(faults), **spec}}
        await self._kube.create(NODEREPAIRPOLICIES, body)
        self.names.append(pool)
        return pool

    async def status(self, name: str) -> Object:
        """The status that the worker has written so far."""
        policy = await self._kube.get(NODEREPAIRPOLICIES, name)
        assert policy is not None
        return dict(policy.get("status") or {})


@asynccontextmanager
async def stated(kube: Kube, sandbox: Sandbox) -> AsyncIterator[Policies]:
    """Policies that are gone in the end."""
    policies = Policies(kube, sandbox)
    yield policies
    for name in policies.names:
        await kube.delete(NODEREPAIRPOLICIES, name)


def report(sandbox: Sandbox, node: str, type_: str, status: str, reason: str) -> None:
    """Set a condition of a Node, as node-problem-detector and the node monitoring agent do."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    reported = {"type": type_, "status": status, "reason": reason, "message": "broken", "lastTransitionTime": now}
    patch = json.dumps({"status": {"conditions": [reported]}})
    sandbox.kubectl("patch", "node", node, "--subresource=status", "--patch", patch)


def deadlock(sandbox: Sandbox, node: str) -> None:
    """Report a deadlock of the kernel, as node-problem-detector does."""
    report(sandbox, node, "KernelDeadlock", "True", "DockerHung")
