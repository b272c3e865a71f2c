"""Opens a node that was closed to all pods except those it was bought for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES
from tenon.kube import pods
from tenon.lifecycle import startup_cordon


async def uncordon(kube: Kube, node: Mapping[str, Any]) -> bool:
    """Let kube-scheduler use a Node that Tenon has closed. Return whether it was closed."""
    if not startup_cordon.uncordon_patch(node):
        return False
    await change(kube, NODES, node["metadata"]["name"], startup_cordon.uncordon_patch, uid=pods.uid(node), seen=node)
    return True


async def uncordon_by_name(kube: Kube, name: str) -> bool:
    """Like `uncordon`, for the Node of this name. Return False if it does not exist."""
    node = await kube.get(NODES, name) if name else None
    return node is not None and await uncordon(kube, node)
