"""Writes and removes the annotation pod-deletion-cost of pods (N15-222)."""

from __future__ import annotations

from typing import Literal

from activities import loggers, metrics
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConflictError, ForbiddenError
from activities.kubernetes.rate_limit import RequestClass, requests_as
from activities.kubernetes.resources import PODS
from tenon.apis import labels
from tenon.disruption.pod_deletion_costs import CostWrite

log = loggers.DISRUPTION

Outcome = Literal["updated", "skipped_notfound", "skipped_conflict", "error"]


async def write_deletion_cost(kube: Kube, write: CostWrite) -> bool:
    """Set or remove the annotation of one pod. Return whether no retry is needed.

    A pod that changed in what the ranking depends on is left to the next cycle, which sees what it is by then. The
    requests have the lowest class, because nothing waits for them.

    Raises:
        ForbiddenError: the worker may not patch pods, so the other writes would fail too.
    """
    outcome: Outcome = "error"
    try:
        with requests_as(RequestClass.EVENT):
            outcome = await _written(kube, write)
    except ForbiddenError:
        raise
    except ApiError as error:
        log.debug(
            "The worker failed to write the deletion cost of a pod and retries",
            extra={"pod": write.pod.key, "error": str(error)},
        )
    finally:
        metrics.DELETION_COST_WRITES.labels(outcome).inc()
    return outcome != "error"


async def _written(kube: Kube, write: CostWrite) -> Outcome:
    """Write at the version that the cache has, or else at the version that the API server has.

    The cache keeps an older version of a pod that changed only in what no decision depends on.
    """
    pod = write.pod
    try:
        return await _patched(kube, write, pod.resource_version)
    except ConflictError:
        metadata = (await kube.get(PODS, pod.pod.name, pod.pod.namespace) or {}).get("metadata")
    if metadata is None or metadata.get("uid") != pod.uid:
        return "skipped_notfound"
    present = (metadata.get("annotations") or {}).get(labels.POD_DELETION_COST)
    if present != pod.deletion_cost or metadata.get("deletionTimestamp"):
        return "skipped_conflict"
    try:
        return await _patched(kube, write, metadata["resourceVersion"])
    except ConflictError:
        return "skipped_conflict"


async def _patched(kube: Kube, write: CostWrite, version: str) -> Outcome:
    pod = write.pod
    annotations = {labels.POD_DELETION_COST: None if write.cost is None else str(write.cost)}
    metadata = {"annotations": annotations, "resourceVersion": version, "uid": pod.uid}
    answer = await kube.patch(PODS, pod.pod.name, {"metadata": metadata}, namespace=pod.pod.namespace)
    return "skipped_notfound" if answer is None else "updated"
