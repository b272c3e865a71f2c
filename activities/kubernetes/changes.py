"""Read, compute, write: sends a minimal merge patch, and computes it again if the object has changed since the read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ConflictError
from activities.kubernetes.resources import Resource

ATTEMPTS = 10

Compute = Callable[[Mapping[str, Any]], dict[str, Any]]


async def change(
    kube: Kube,
    resource: Resource,
    name: str,
    compute: Compute,
    *,
    uid: str,
    subresource: str = "",
    read_object: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Patch a cluster-scoped object with what ``compute`` returns for its current state. An empty patch is not sent.

    The patch carries the resource version that it was computed from, because a merge patch replaces lists (taints,
    finalizers, conditions) as a whole. ``read_object`` is the object as the caller has just read it, which saves a
    read. If it has changed since, the API server refuses the patch, and the object is read.

    Returns:
        The object after the patch, or None if it is gone or has another UID.

    Raises:
        ConflictError: the object changed during each of the attempts.
    """
    for attempt in range(ATTEMPTS):
        present = dict(read_object) if read_object is not None and not attempt else await kube.get(resource, name)
        if present is None or present["metadata"].get("uid") != uid:
            return None
        patch = compute(present)
        if not patch:
            return present
        metadata = {**patch.get("metadata", {}), "resourceVersion": present["metadata"]["resourceVersion"]}
        try:
            return await kube.patch(resource, name, {**patch, "metadata": metadata}, subresource=subresource)
        except ConflictError:
            if attempt == ATTEMPTS - 1:
                raise
    return None
