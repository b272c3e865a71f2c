"""Removes the startup cordon, which keeps a node for the pods that it was bought for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES
from tenon.kube import object_json
from tenon.node import startup_cordon


async def remove_startup_cordon(kube: Kube, node: Mapping[str, Any]) -> bool:
    """Let kube-scheduler use a Node with a startup cordon. Return False if it has none."""
    if not startup_cordon.removal_patch(node):
        return False
    await change(
        kube, NODES, node["metadata"]["name"], startup_cordon.removal_patch, uid=object_json.uid(node), read_object=node
    )
    return True


async def remove_startup_cordon_by_name(kube: Kube, name: str) -> bool:
    """Like `remove_startup_cordon`, for the Node of this name. Return False if it does not exist."""
    node = await kube.get(NODES, name) if name else None
    return node is not None and await remove_startup_cordon(kube, node)
