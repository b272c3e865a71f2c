"""Tells a NodePool that does not exist from one without nodes, so that a slip in ``--pool`` does not pass."""

from __future__ import annotations

from activities.kubernetes.errors import ApiError, ConfigError
from activities.kubernetes.resources import NODECLAIMS, NODEPOOLS
from cli.connection import connected
from tenon.apis import labels
from tenon.kube import object_json


async def why_unknown(pool: str) -> str:
    """Return that there is no such NodePool and no node of it, as a sentence; empty if there is, or if it is not known.

    Nodes may outlive their NodePool.
    """
    try:
        kube = await connected()
    except ConfigError:
        return ""
    try:
        names = {body["metadata"]["name"] for body in await kube.list(NODEPOOLS)}
        if pool in names:
            return ""
        claims = await kube.list(NODECLAIMS, label_selector=f"{labels.NODEPOOL}={pool}")
    except ApiError:
        return ""
    finally:
        await kube.close()
    if any(object_json.labels(claim).get(labels.NODEPOOL) == pool for claim in claims):
        return ""
    return f"NodePool {pool} does not exist, and no node is one of it."
