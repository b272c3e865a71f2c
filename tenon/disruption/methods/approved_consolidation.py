"""What a consolidation that a person approved costs by now: its prices may be days old.

It takes the replacements of a plan that is made now, whose dearest type still keeps the move cheaper than the nodes. A
command that would not save anything any more ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.decision import Candidate, Command
from tenon.disruption.methods.consolidation import Consolidation, explain
from tenon.disruption.nodes import NodeDetail
from tenon.disruption.search.consolidation_price import LEAST_SAVING, PriceRule
from tenon.disruption.search.least_saving import LeastSavings
from tenon.disruption.search.moves import Move
from tenon.disruption.situation import Situation
from tenon.kube.requirements import Requirements
from tenon.messages.disruption import DisruptionCommand, Replacement
from tenon.money import per_hour, price_text
from tenon.scheduling.model import Plan, PlannedClaim


def priced_again(command: DisruptionCommand, plan: Plan, situation: Situation) -> tuple[str, Command | None]:
    """Return why an approved consolidation does not pay any more, in a clause, or else what is carried out.

    Args:
        command: the command as a person approved it.
        plan: where its pods go now.
        situation: the cluster as it is now, with its model.

    Returns:
        Why it must not start, empty if it may; and the command that starts in its place, None if it buys nothing.
    """
    assert situation.model is not None
    details = {candidate.claim: situation.model.details[candidate.claim] for candidate in command.candidates}
    least_savings = LeastSavings(situation)
    rule = PriceRule(
        situation.model.problem,
        spot_to_spot=_may_buy_spot(command.replacements),  # as the feature gate was when it was decided
        asked_saving=least_savings.of,
    )
    leaving = list(details.values())
    bill = rule.bill(leaving, plan.claims)
    if bill is None:
        return _why_not(leaving, plan.claims, max(LEAST_SAVING, least_savings.of(leaving))), None
    if not bill.replacements:
        return "", None
    move = Move(tuple(details), Plan(bill.replacements, plan.placements), bill.guaranteed_saving, bill.expected)
    nodes = {node.claim: node for node in situation.nodes}
    candidates = tuple(Candidate(nodes[candidate.claim], candidate.since) for candidate in command.candidates)
    return "", Command(
        method=Consolidation.name,
        reason=Reason(command.reason),
        consolidation_type=command.consolidation_type,
        candidates=candidates,
        replacements=bill.replacements,
        destinations=dict(plan.placements),
        moves_pods=True,
        guaranteed_saving=bill.guaranteed_saving,
        expected=bill.expected,
        explanation=explain(move, details, {}),
    )


def _may_buy_spot(replacements: Iterable[Replacement]) -> bool:
    terms = (replacement.body["spec"].get("requirements") or () for replacement in replacements)
    return any(Requirements.from_terms(term).get(labels.CAPACITY_TYPE).has(labels.SPOT) for term in terms)


def _why_not(leaving: Sequence[NodeDetail], claims: Sequence[PlannedClaim], least: float) -> str:
    before, after = sum(detail.price for detail in leaving), sum(claim.price for claim in claims)
    prices = f"its nodes cost {per_hour(before)} and their replacements {price_text(after)} by now"
    if before - after <= 0:
        return f"it saves nothing any more: {prices}"
    if before - after <= least:
        return f"it saves too little by now: {prices}, and {price_text(max(0.0, least))} is the least that it must save"
    return f"no replacement is cheaper than its nodes for certain any more: {prices} as their cheapest types"
