"""Opens a node that was closed to all pods except those it was bought for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES
from tenon.kube import pods
from tenon.lifecycle import startup_cordon


async def open_node(kube: Kube, node: Mapping[str, Any]) -> bool:
    """Let kube-scheduler use a Node that Tenon has closed. Return whether it was closed."""
    if not startup_cordon.opened(node):
        return False
    await change(kube, NODES, node["metadata"]["name"], startup_cordon.opened, uid=pods.uid(node), seen=node)
    return True


async def open_named(kube: Kube, name: str) -> bool:
    """Like `open_node`, for the Node of this name. Return False if it does not exist."""
    node = await kube.get(NODES, name) if name else None
    return node is not None and await open_node(kube, node)
