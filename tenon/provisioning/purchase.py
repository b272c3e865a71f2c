"""Explains why a NodeClaim is bought. The claim carries the explanation, and its workflow shows it."""

from __future__ import annotations

from collections.abc import Sequence

from tenon.messages.explanation import Explanation
from tenon.money import per_hour
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import PlannedClaim
from tenon.sentences import counted, first_few

NAMED_PODS, NAMED_TYPES = 5, 5
MAX_EXPLAINED = 200
"""How many claims of a plan get their type explained. More would delay the pods of a large plan."""


def explanations(winners: TypeChoiceExplainer, claims: Sequence[PlannedClaim]) -> list[Explanation]:
    """Return, for each claim of a plan, why it is bought."""
    return [
        explanation(claim, winners.why(claim) if number < MAX_EXPLAINED else "") for number, claim in enumerate(claims)
    ]


def explanation(claim: PlannedClaim, choice: str, occasion: str = "") -> Explanation:
    """List the pods, the cheapest types, the reason for the choice among them, and the price.

    Args:
        claim: the planned claim.
        choice: why its cheapest type was chosen; may be empty.
        occasion: why the claim is bought, if not for pods.
    """
    pods = sorted(pod.key for pod in claim.pods if not pod.buffer)
    rooms = len(claim.pods) - len(pods)
    bought = claim.offering
    place = f"{bought.instance_type}, {bought.zone}, {bought.capacity_type}"
    return Explanation(
        occasion=occasion,
        pods=f"{counted(len(pods), 'pod')}: {first_few(pods, NAMED_PODS)}" if pods else "",
        headroom=f"room for {counted(rooms, 'pod')} of CapacityBuffers" if rooms else "",
        types=f"cheapest available types that fit: {first_few(claim.instance_types, NAMED_TYPES)}",
        choice=choice,
        price=f"planned price: {per_hour(claim.price)} ({place})",
    ).bounded()
