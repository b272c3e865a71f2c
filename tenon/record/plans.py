"""Makes the entry of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from tenon.kube.pod import Pod
from tenon.messages.explanation import Explanation
from tenon.record.entries import MAX_LISTED, PlanEntry, RecordedPurchase
from tenon.record.kept_inputs import NOT_KEPT, KeptInputs
from tenon.record.origin import Origin
from tenon.record.room import EntryRoom
from tenon.scheduling.model import Plan


def plan_entry(
    origin: Origin,
    at: datetime,
    plan: Plan,
    *,
    batch: int,
    claims: Sequence[str],
    explanations: Sequence[Explanation],
    pods: int,
    decision: str,
    inputs: KeptInputs = NOT_KEPT,
    seconds: float = 0.0,
) -> PlanEntry:
    """Return the entry of a plan.

    Args:
        origin: the cluster, and the provisioner's workflow.
        at: when it was made.
        plan: the plan as it was carried out, with only the NodeClaims that were written.
        batch: the number of its batch.
        claims: the names of its NodeClaims, in the order of the plan.
        explanations: why each of them is bought, in the same order.
        pods: how many pods it was for, without those of CapacityBuffers.
        decision: its digest.
        inputs: where its inputs are.
        seconds: how long the decision took.
    """
    room = EntryRoom()
    bought = zip(plan.claims, claims, explanations, strict=True)
    purchases = [
        RecordedPurchase(
            claim=claim,
            pool=planned.pool,
            instance_type=planned.offering.instance_type,
            price=round(planned.price, 6),
            pods=room.names(_keys(planned.pods)),
            pod_count=sum(not pod.buffer for pod in planned.pods),
            why=room.explanation(why.model_copy(update={"pods": "", "price": ""})),
        )
        for planned, claim, why in islice(bought, MAX_LISTED)
    ]
    on_existing = {node: keys for node, placed in plan.placements.items() if (keys := _keys(placed))}
    return PlanEntry(
        id=f"plan/{origin.cluster}/{batch}/{origin.run}",
        at=at,
        cluster=origin.cluster,
        workflow=origin.workflow,
        run=origin.run,
        actor="provisioner",
        batch=batch,
        inputs=inputs.digest,
        inputs_lacking=room.text(inputs.lacking),
        decision=decision,
        pods=pods,
        on_existing={
            node: names for node, keys in islice(on_existing.items(), MAX_LISTED) if (names := room.names(keys))
        },
        purchases=purchases,
        unschedulable=room.pool_reasons(plan.unschedulable),
        unschedulable_count=len(plan.unschedulable),
        purchase_count=len(plan.claims),
        placed_count=sum(len(keys) for keys in on_existing.values()),
        price=round(sum(claim.price for claim in plan.claims), 6),
        seconds=round(seconds, 4),
    )


def _keys(pods: Sequence[Pod]) -> list[str]:
    return [pod.key for pod in pods if not pod.buffer]
