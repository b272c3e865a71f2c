"""What a pass for moves depends on, so that one which found nothing is soon repeated only if it may find something now.

Karpenter skips consolidation while the cluster is as a pass without a result left it, for five minutes at most
(DIS-39). A busy cluster never stays as it was, so here only what gives a move a new chance counts as a change. A pod
that another of the same size replaces on its node gives none, and neither does a pod that comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tenon.apis.reasons import MOVING, Reason
from tenon.disruption.methods import moving_methods
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.pool_policy import PoolPolicy
from tenon.disruption.rules.blockers import is_free
from tenon.disruption.rules.consolidatable import takes_pods
from tenon.disruption.rules.pool_budgets import PoolBudgets
from tenon.disruption.situation import Situation
from tenon.kube.offerings import OfferingKey
from tenon.resources import Resources
from tenon.scheduling.deadline import never


@dataclass(frozen=True, slots=True)
class PassNodeFacts:
    """What a pass may do with a node."""

    reasons: frozenset[Reason]
    """For which it may leave. Rules about its pods do not count."""
    used: Resources
    """What its pods request. Other pods may use the rest."""
    released: int = 0
    """How often a pod of it that do-not-disrupt kept ended, went away or lost the annotation."""

    def offer_more_than(self, before: PassNodeFacts) -> bool:
        """Return whether the node may leave for one more reason, is no longer kept by a pod, or has more room."""
        return (
            not self.reasons <= before.reasons
            or self.released != before.released
            or any(self.used.get(name, 0) < used for name, used in before.used.items())
        )


@dataclass(frozen=True, slots=True)
class PassFacts:
    """What a pass may use."""

    policies: Mapping[str, PoolPolicy]
    budgets: Mapping[tuple[str, Reason], int]
    """How many nodes of each NodePool may leave for a reason."""
    nodes: Mapping[str, PassNodeFacts]
    """By NodeClaim, without those whose consolidateAfter is not over."""
    evictions_allowed: int
    """How often a PodDisruptionBudget may have begun to allow evictions, which may select pods of many nodes."""
    unavailable: frozenset[OfferingKey] = frozenset()
    """What EC2 refused, if a node was bought in a capacity shortage: when it is available again, the node may leave."""

    def offer_more_than(self, before: PassFacts) -> bool:
        """Return whether a pass may find what it did not find with the facts ``before``."""
        return self.allow_more_than(before) or any(
            claim not in before.nodes or node.offer_more_than(before.nodes[claim]) for claim, node in self.nodes.items()
        )

    def allow_more_than(self, before: PassFacts) -> bool:
        """Return whether something that holds for many nodes changed.

        That is a policy, a budget, what forbids evictions, or what EC2 refuses.
        """
        return (
            self.policies != before.policies
            or not before.unavailable <= self.unavailable
            or self.evictions_allowed != before.evictions_allowed
            or any(allowance > before.budgets.get(key, 0) for key, allowance in self.budgets.items())
        )


def pass_facts(
    situation: Situation,
    used: Mapping[str, Resources],
    released: Mapping[str, int],
    evictions_allowed: int,
    unavailable: frozenset[OfferingKey] = frozenset(),
    before: PassFacts | None = None,
) -> PassFacts:
    """Return the facts now. It is cheap and needs no model.

    Args:
        situation: the nodes and the open commands, and since when the pods of each node have not changed.
        used: by NodeClaim, what the pods of its node request.
        released: by NodeClaim, how often a pod of its node that do-not-disrupt kept went away or lost the annotation.
        evictions_allowed: how often a PodDisruptionBudget may have begun to allow evictions.
        unavailable: the offerings that EC2 refused.
        before: the facts of the last round. For a node whose consolidateAfter began again since then, they still hold.
    """
    budgets = {reason: PoolBudgets(situation, reason) for reason in MOVING}
    facts = PassFacts(
        policies=situation.policies,
        budgets={(pool, reason): budgets[reason].left(pool) for pool in situation.policies for reason in MOVING},
        nodes={
            claim: PassNodeFacts(frozenset(reasons), used.get(claim, {}), released.get(claim, 0))
            for claim, reasons in _reasons(situation).items()
        },
        evictions_allowed=evictions_allowed,
        unavailable=frozenset(unavailable) if any(node.bought_in_shortage for node in situation.nodes) else frozenset(),
    )
    if before is None or facts.allow_more_than(before):
        return facts
    restless = (node.claim for node in situation.nodes if node.claim not in facts.nodes)
    kept_nodes = {claim: before.nodes[claim] for claim in restless if claim in before.nodes}
    return replace(facts, nodes={**facts.nodes, **kept_nodes})


def _reasons(situation: Situation) -> dict[str, set[Reason]]:
    """Return why each node may leave, of all nodes that may leave or that pods may move to."""
    reasons: dict[str, set[Reason]] = {node.claim: set() for node in situation.nodes if _takes_pods(node, situation)}
    for method in moving_methods(never):
        for node in situation.nodes:
            if method.cause(node, situation) and is_free(node, situation, method.reason):
                reasons.setdefault(node.claim, set()).add(method.reason)
    return reasons


def _takes_pods(node: ManagedNode, situation: Situation) -> bool:
    since = situation.quiet_since_of(node)
    if since is None or node.leaving:
        return False
    return takes_pods(situation.policies.get(node.pool), since, situation.now)
