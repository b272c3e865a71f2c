"""Writes the NodeClaims of one batch.

The first is written alone: of two planners that are at one batch at the same time, the second finds it there and stops
before it has written anything, even if it would have written the same. Its retry then finds the batch planned.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from temporalio.exceptions import ApplicationError

from activities import metrics
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import Conflict
from activities.kubernetes.resources import NODECLAIMS
from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.provisioning.claims import claim_body
from tenon.provisioning.overlays import Overlaid
from tenon.scheduling.model import Plan

log = logging.getLogger("controller.provisioner")

WRITERS = 20
"""NodeClaims written at the same time."""


async def write_claims(
    kube: Kube, plan: Plan, pools: Mapping[str, NodePool], batch: int, seen: Overlaid | None = None
) -> list[str]:
    """Write every NodeClaim of a plan and return their names, in the plan's order.

    Args:
        kube: the cluster.
        plan: what is to be bought.
        pools: the NodePools by name.
        batch: the number that the claims' names derive from.
        seen: what NodeOverlays changed of the types, of which the claims bear a trace.

    Raises:
        ApiError: some could not be written; all that could be are.
        ApplicationError: another plan of the same batch is there.
    """
    gate = asyncio.Semaphore(WRITERS)

    async def write(body: dict[str, Any]) -> None:
        async with gate:
            try:
                await kube.create(NODECLAIMS, body)
            except Conflict:
                await _check_same(kube, body)

    bodies = []
    for ordinal, planned in enumerate(plan.claims):
        bodies.append(claim_body(planned, pools[planned.pool], batch=batch, ordinal=ordinal))
        if seen is not None:
            bodies[-1]["metadata"]["annotations"] |= seen.traces(planned.pool, planned.instance_types)
        relaxed = "true" if planned.min_values_relaxed else "false"
        metrics.CLAIMS_CREATED.labels("provisioned", planned.pool, relaxed).inc()
        log.info(
            "computed packing",
            extra={
                "nodeclaim": bodies[-1]["metadata"]["name"],
                "nodepool": planned.pool,
                "pods": len(planned.pods),
                "instance-types": list(planned.instance_types[:5]),
                "instance-type-options": len(planned.instance_types),
                "price": planned.price,
            },
        )
    for body in bodies[:1]:
        await _write_first(kube, body)
    answers = await asyncio.gather(*(write(body) for body in bodies[1:]), return_exceptions=True)
    for answer in answers:  # raised only when all have come to an end: a retry must find what was written
        if isinstance(answer, BaseException):
            raise answer
    return [str(body["metadata"]["name"]) for body in bodies]


async def _write_first(kube: Kube, body: dict[str, Any]) -> None:
    try:
        await kube.create(NODECLAIMS, body)
    except Conflict:
        name = body["metadata"]["name"]
        raise ApplicationError(f"another planner is at this batch: {name} is there", type="CacheBehind") from None


async def _check_same(kube: Kube, body: dict[str, Any]) -> None:
    """A NodeClaim of this name exists: one of another replica for the same pods is as good as ours."""
    name = body["metadata"]["name"]
    present = await kube.get(NODECLAIMS, name) or {"metadata": {}}
    wanted = body["metadata"]["annotations"][labels.PLANNED_PODS]
    if (present["metadata"].get("annotations") or {}).get(labels.PLANNED_PODS) != wanted:
        raise ApplicationError(f"another replica plans this batch too: {name} is for other pods", type="CacheBehind")
    log.info("nodeclaim exists already", extra={"nodeclaim": name})
