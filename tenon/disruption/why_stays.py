"""Why a node is not disrupted now, in sentences: what protects it, which budget, and what a replacement would cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from tenon.apis import labels
from tenon.apis.nodepool import Budget
from tenon.apis.reasons import Reason
from tenon.disruption.decision import DisruptionBlocked
from tenon.disruption.methods import moving_methods
from tenon.disruption.methods.balanced import LEAST_SCORE, Balance, approved
from tenon.disruption.methods.consolidation import closed_nodes, nodes_within_consolidate_after
from tenon.disruption.nodes import ManagedNode, NodeDetail
from tenon.disruption.rules.approvals import is_asked_for, why_asked
from tenon.disruption.rules.blockers import Hold, holds, is_free
from tenon.disruption.rules.budgets import binding, opens_at
from tenon.disruption.rules.pool_budgets import Members, gone_first, is_counted, members_of, unavailable_nodes
from tenon.disruption.rules.windows import why_closed
from tenon.disruption.search.consolidation_price import LEAST_SAVING, SPOT_FLEXIBILITY, PriceRule, may_be_spot
from tenon.disruption.search.rescheduling import Rescheduler, is_complete
from tenon.disruption.situation import Situation
from tenon.kube.claim_record import ClaimRecord
from tenon.kube.timestamps import time_text
from tenon.money import per_hour, price_text
from tenon.node.leave_text import removal_of, removal_text
from tenon.scheduling.deadline import never
from tenon.scheduling.model import Plan, PlannedClaim
from tenon.sentences import counted, first_few

SHOWN = 3
"""How many nodes, NodeClaims or budgets a sentence names."""


class WhyStays:
    """Explains nodes of one situation. The sentences about a node come with the most important one first.

    A price is that of the node alone. Consolidation also tries sets of nodes, so it may find a move for a node that
    would save nothing alone.
    """

    def __init__(
        self,
        situation: Situation,
        *,
        blocked: Mapping[str, DisruptionBlocked] | None = None,
        spot_to_spot: bool = False,
    ) -> None:
        """Prepare the simulations.

        Args:
            situation: the cluster, with its model, as the commands that were decided leave it.
            blocked: by NodeClaim, what the methods said of nodes that cannot leave.
            spot_to_spot: spot nodes may be replaced by spot nodes (feature gate SpotToSpotConsolidation).
        """
        assert situation.model is not None, "prices need a model"
        self._situation = situation
        self._model = situation.model
        self._blocked = blocked or {}
        self._rescheduler = Rescheduler(self._model, closed_nodes(situation, self._model))
        self._early = [node for node in nodes_within_consolidate_after(situation) if not node.bought_in_shortage]
        """Nodes that take no pods because consolidateAfter is not over for them."""
        self._rule = PriceRule(self._model.problem, spot_to_spot=spot_to_spot)
        self._balance = Balance(situation, self._model)
        self._members = members_of(situation)

    def sentences(self, node: ManagedNode) -> tuple[str, ...]:
        """Return why the node is not disrupted now, one sentence each, without a period."""
        detail = self._model.details.get(node.claim)
        first = (*_of_shortage(node, detail), *self._of_expiration(node))
        reason = Reason.EMPTY if node.empty else Reason.UNDERUTILIZED
        keeping = holds(node, self._situation, reason)
        if own := [_capitalized(hold.why) for hold in keeping if hold.blocker.is_about_node]:
            return (*first, *own)
        sentences = [*first, *self._of_other_reasons(node, detail)]
        if keeping and keeping[-1].blocker.is_final:
            return (*sentences, _capitalized(keeping[-1].why))
        if node.empty:
            sentences += map(_of_empty_node, keeping)
            sentences += self._of_budgets(node, reason)
        elif detail is None:
            sentences.append("Its NodeClaim has no Node that could be simulated")
        elif not detail.pods:
            sentences.append("It has no pods, but pods are on their way to it")
        else:
            sentences += self._of_consolidation(node, detail, keeping)
        return tuple(sentences)

    def _of_expiration(self, node: ManagedNode) -> Iterator[str]:
        """Why an expired node waits. It leaves at once unless its NodePool asks for budgets."""
        situation = self._situation
        if node.expires_at is None or node.expires_at > situation.now or not is_free(node, situation, Reason.EXPIRED):
            return
        if situation.policies[node.pool].expire_within_budgets:
            waits = f"It expired at {time_text(node.expires_at)} and waits ({labels.EXPIRE_WITHIN_BUDGETS})"
            yield from (waits, *(self._of_budgets(node, Reason.EXPIRED) or ["A later check removes it"]))

    def _of_other_reasons(self, node: ManagedNode, detail: NodeDetail | None) -> Iterator[str]:
        """Why a node waits that a method would replace for another reason than its price, such as drift."""
        for method in moving_methods(never):
            cause = method.cause(node, self._situation)
            if not cause or method.reason.traits.is_consolidation:
                continue
            if why := self._blocked.get(node.claim):
                yield from (_capitalized(str(why)), *self._of_budgets(node, method.reason))
                continue
            if is_asked_for(node, self._situation, method.reason):
                yield f"{_capitalized(cause)}, but {why_asked(node, self._situation)}"
                continue
            message = detail.drift_message if detail is not None and method.reason is Reason.DRIFTED else ""
            yield f"{_capitalized(cause)}{f': {message}' if message else ''}"
            yield from self._of_budgets(node, method.reason) or ["A later check replaces it"]

    def _of_consolidation(self, node: ManagedNode, detail: NodeDetail, keeping: Sequence[Hold]) -> Iterator[str]:
        obstacles = [*(_capitalized(hold.why) for hold in keeping), *self._of_budgets(node, Reason.UNDERUTILIZED)]
        yield from obstacles
        if node.pool in self._model.launching and detail.price > 0:
            plan = self._rescheduler.simulate([node.claim])
            yield from self._of_price(node, detail, plan, free=not obstacles)
            if plan.claims or not is_complete(plan):
                yield from self._of_early_nodes(node, detail)

    def _of_budgets(self, node: ManagedNode, reason: Reason) -> list[str]:
        """Return which budgets allow no more node for the reason, and when they do; empty if they allow one."""
        situation = self._situation
        if not is_counted(node):
            return []
        if closed := why_closed(situation.policies[node.pool].windows, reason, situation.now):
            return [f"NodePool {node.pool} allows no disruption for {reason}: it is {closed}"]
        budgets = situation.policies[node.pool].budgets
        total, away = self._members.get(node.pool, Members()).total, unavailable_nodes(situation, node.pool, reason)
        gone_claims = [claim for claim, pool in gone_first(situation).items() if pool == node.pool]
        unavailable = len(away) + len(gone_claims)
        try:
            tight = binding(budgets, reason, total, unavailable, situation.now)
        except ValueError as error:
            return [f"A budget of NodePool {node.pool} allows nothing: {error}"]
        if not tight:
            return []
        opens = opens_at(budgets, reason, total=total, unavailable=unavailable, now=situation.now)
        when = f"; it opens at {time_text(opens)}" if opens is not None else ""
        names = sorted([*(leaving_node.node or leaving_node.claim for leaving_node in away), *gone_claims])
        counted_already = (
            f"; {first_few(names, SHOWN)} {'counts' if len(names) == 1 else 'count'} as unavailable" if names else ""
        )
        return [
            f"Budget {_text(tight[0])} of NodePool {node.pool} allows no more of its {counted(total, 'node')} to be "
            f"disrupted for {reason.camel_case}{counted_already}{when}"
        ]

    @cached_property
    def _with_early_nodes(self) -> Rescheduler:
        """The cluster as it were if nodes took pods although consolidateAfter is not over for them."""
        names = {early.node for early in self._early}
        return Rescheduler(self._model, closed_nodes(self._situation, self._model) - names)

    def _of_early_nodes(self, node: ManagedNode, detail: NodeDetail) -> Iterator[str]:
        """Which room the rule keeps from the pods that consolidateAfter must be over for a node that takes pods."""
        others = [early for early in self._early if early.claim != node.claim]
        if not others:
            return
        plan = self._with_early_nodes.simulate([node.claim])
        if plan.claims or not is_complete(plan):
            return
        pools = {early.node: early.pool for early in others}
        waiting = sorted({pools[name] for name, pods in plan.placements.items() if pods and name in pools})
        pods = counted(len(detail.pods), "pod")
        yield (
            f"Its {pods} would fit on {_hosts(plan)}, which would save {per_hour(detail.price)}, but "
            f"consolidateAfter of NodePool {first_few(waiting, SHOWN)} is not over there: the annotation "
            f"{labels.TAKES_PODS_EARLY} lets them move all the same"
        )

    def _of_price(self, node: ManagedNode, detail: NodeDetail, plan: Plan, *, free: bool) -> Iterator[str]:
        """What the pods of the node would need elsewhere, and what that costs.

        ``plan``: where they would go.
        """
        pods = counted(len(detail.pods), "pod")
        if not is_complete(plan):
            key = min(plan.unschedulable)
            more = f" (and {len(plan.unschedulable) - 1} more)" if len(plan.unschedulable) > 1 else ""
            yield f"Pod {key}{more} has no other place: {plan.unschedulable[key]}"
            return
        cost = sum(claim.price for claim in plan.claims)
        saving = detail.price - cost
        if not plan.claims:
            fit = "fits" if len(detail.pods) == 1 else "fit"
            yield f"Its {pods} {fit} on {_hosts(plan)}, which would save {per_hour(saving)}"
        else:
            rest = f", and {_hosts(plan)}" if any(plan.placements.values()) else ""
            worth = f", which would save {per_hour(saving)}" if saving > LEAST_SAVING else ""
            yield f"Its {pods} would need {_bought(plan.claims)}{rest}{worth}"
            if saving <= LEAST_SAVING:
                short = f"{per_hour(-saving)} too expensive" if -saving >= 0.00005 else "no cheaper"
                yield f"The node costs {per_hour(detail.price)}, so its replacement is {short}"
                return
            if self._rule.bill([detail], plan.claims) is None:
                yield self._why_no_bill(detail, plan)
                return
        scores = self._balance.scores({node.claim: detail}, saving)
        if not approved(scores.values()):
            score = f"{min(scores.values()):.2f}"
            yield f"NodePool {node.pool} is Balanced: this would score {score}, and {LEAST_SCORE:g} is needed"
        elif free:
            yield "A later check may remove it, unless it finds something better"

    def _why_no_bill(self, detail: NodeDetail, plan: Plan) -> str:
        """Why a cheaper replacement breaks a rule of the price."""
        if not self._rule.is_free(detail) and any(map(may_be_spot, plan.claims)):
            return (
                "It is a spot node, which is replaced only with the feature gate SpotToSpotConsolidation; without it, "
                "its pods must fit on other nodes"
            )
        if detail.capacity_type == labels.SPOT and plan.claims[0].offering.capacity_type == labels.SPOT:
            return f"It is a spot node, which is replaced only if {SPOT_FLEXIBILITY} instance types are cheaper"
        return (
            "Too few instance types remain without those that EC2 might launch at the price of the node or above, and "
            "without its own type"
        )


def _of_shortage(node: ManagedNode, detail: NodeDetail | None) -> Iterator[str]:
    """That the node costs far more than usual. What else is said is why it stays all the same."""
    if not node.bought_in_shortage or node.leaving:
        return
    costs = f"It costs {per_hour(detail.price)}" if detail is not None and detail.price > 0 else "It is dear"
    usual = f" at {price_text(node.usual_price)}" if node.usual_price else ""
    yield f"{costs} because it was bought in a capacity shortage, when EC2 refused cheaper nodes{usual}"


def leaving_text(claim: ClaimRecord) -> str:
    """Return why a node that is leaving does so."""
    since = f" since {time_text(claim.deleted_at)}" if claim.deleted_at is not None else ""
    return f"It is leaving{since}: {removal_text(removal_of(claim))}"


def _text(budget: Budget) -> str:
    parts = [f"nodes: {budget.nodes}"]
    if budget.reasons is not None:
        parts.append(f"reasons: {', '.join(budget.reasons)}")
    if budget.schedule is not None:
        parts.append(f"schedule: {budget.schedule}, duration: {budget.duration}")
    return f"({', '.join(parts)})"


def _bought(claims: Sequence[PlannedClaim]) -> str:
    texts = []
    for claim in claims:
        capacity_type, instance_type, zone = claim.offering[:3]
        texts.append(f"{instance_type} ({capacity_type}, {zone}, {per_hour(claim.price)})")
    return f"{counted(len(claims), 'new node')}, at best {first_few(texts, SHOWN)}"


def _hosts(plan: Plan) -> str:
    names = sorted(name for name, pods in plan.placements.items() if pods)
    return f"{counted(len(names), 'existing node')} ({first_few(names, SHOWN)})"


def _of_empty_node(hold: Hold) -> str:
    is_of_pods = hold.blocker.graceful_only
    return f"It is empty, but {hold.why}" if is_of_pods or not hold.until else _capitalized(hold.why)


def _capitalized(text: str) -> str:
    """Return the clause as a sentence. One that begins with the name of a field, such as consolidateAfter, is one."""
    return text[:1].upper() + text[1:] if text.split(" ", 1)[0].islower() else text
