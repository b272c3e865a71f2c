"""What comes in the place of a node, in lines for a command's page and in the sentence of an event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.money import per_hour
from tenon.scheduling.model import PlannedClaim
from tenon.sentences import counted


def replacement_lines(claims: Sequence[PlannedClaim], placements: Mapping[str, Sequence[Pod]]) -> Iterator[str]:
    """Yield the new nodes, and how many pods move to existing ones.

    ``placements``: by Node, the pods that move there.
    """
    for claim in claims[:2]:
        bought = claim.offering
        place = f"{bought.instance_type}, {bought.zone}, {bought.capacity_type}"
        yield f"replacement for {counted(len(claim.pods), 'pod')}: {per_hour(claim.price)} ({place})"
    if len(claims) > 2:
        yield f"and {counted(len(claims) - 2, 'more replacement')}"
    moving = [len(pods) for pods in placements.values() if pods]
    if moving:
        yield f"{counted(sum(moving), 'pod')} on {counted(len(moving), 'existing node')}"
    if not claims and not moving:
        yield "no pod needs another node, so nothing is bought"


def without_place(unschedulable: Mapping[str, NoPlace]) -> str:
    """Return that a pod has no other place, and why, in a clause. ``unschedulable``: by pod, why; not empty."""
    key = min(unschedulable)
    others = len(unschedulable) - 1
    more = f" (and {counted(others, 'more pod')})" if others else ""
    return f"pod {key}{more} has no other place: {unschedulable[key]}"
