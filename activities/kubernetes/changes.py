"""Read, compute, write: the smallest merge patch, refused and computed again when somebody else wrote meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.errors import Conflict
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
    seen: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """Patch a cluster-scoped object by what ``compute`` makes of its present form; an empty patch is not sent.

    The patch carries the resource version that it was computed from, for lists (taints, finalizers, conditions) are
    replaced whole. ``seen`` is the object as the caller has just read it, so that it need not be read again: had it
    changed since, its version would be refused.

    Returns:
        The object afterwards; None when it, or the one with this UID, is gone.

    Raises:
        Conflict: the object changed under every attempt.
    """
    for attempt in range(ATTEMPTS):
        present = dict(seen) if seen is not None and not attempt else await kube.get(resource, name)
        if present is None or present["metadata"].get("uid") != uid:
            return None
        patch = compute(present)
        if not patch:
            return present
        metadata = {**patch.get("metadata", {}), "resourceVersion": present["metadata"]["resourceVersion"]}
        try:
            return await kube.patch(resource, name, {**patch, "metadata": metadata}, subresource=subresource)
        except Conflict:
            if attempt == ATTEMPTS - 1:
                raise
    return None
