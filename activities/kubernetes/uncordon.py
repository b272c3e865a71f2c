"""Opening a node that was closed to all but the pods it was bought for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES
from tenon.kube import pods
from tenon.lifecycle import startup_cordon


async def open_node(kube: Kube, node: Mapping[str, Any]) -> bool:
    """Let kube-scheduler use a Node that Tenon has closed; whether it had."""
    if not startup_cordon.opened(node):
        return False
    await change(kube, NODES, node["metadata"]["name"], startup_cordon.opened, uid=pods.uid(node), seen=node)
    return True


async def open_named(kube: Kube, name: str) -> bool:
    """As `open_node`, for the Node of this name, if there is one."""
    node = await kube.get(NODES, name) if name else None
    return node is not None and await open_node(kube, node)
