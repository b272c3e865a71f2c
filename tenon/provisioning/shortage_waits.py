"""Which pods wait for cheaper capacity, where their NodePool asks for it with ``tenon.sh/shortage-policy: Wait``.

While EC2 refuses the types that fit, what is left may cost many times as much. Plans avoid what EC2 refused for minutes
only, so pods that can wait may get an ordinary node then. Other NodePools may take them at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from tenon.apis import labels
from tenon.apis.nodepool import NodePool
from tenon.apis.shortage_price import is_far_dearer, price_factor, waits_in_shortage
from tenon.evolve import evolve
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.kube.requirements import Requirement, Requirements
from tenon.provisioning.shortage_sentences import price_obstacle
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import Plan, PlannedClaim

if TYPE_CHECKING:  # most plans wait for nothing, and load no messages
    from tenon.messages.provisioning import ShortageWait

MAX_GROUPS = 20
"""How many groups of waiting pods a workflow remembers."""
Waits: TypeAlias = "Mapping[str, ShortageWait]"
"""By the key of a pod, what it waits for."""


def dear_nodes(plan: Plan, pools: Mapping[str, NodePool], prices: TypeChoiceExplainer) -> dict[str, ShortageWait]:
    """Return what the pods of the plan wait for that do not accept their node at its price.

    Args:
        plan: the plan.
        pools: the NodePools by name.
        prices: compares the nodes of the plan with what EC2 refused.
    """
    return {
        pod.key: wait
        for claim in plan.claims
        if (wait := _wait(claim, pools, prices)) is not None
        for pod in claim.pods
        if not pod.buys_in_shortage
    }


def elsewhere(pods: Sequence[Pod], waits: Waits) -> list[Pod]:
    """Return the pods for a second plan, in which those that wait may use any NodePool but the one that they wait for.

    The restriction is one of their volumes, not of their affinity: spread constraints count the nodes that the affinity
    allows.
    """
    outside = {
        name: Requirements.of(Requirement.new(labels.NODEPOOL, "NotIn", [name]))
        for name in {wait.pool for wait in waits.values()}
    }
    return [
        replace(pod, volume_terms=_each_with(pod.volume_terms, outside[waits[pod.key].pool]))
        if pod.key in waits
        else pod
        for pod in pods
    ]


def _each_with(terms: Sequence[Requirements], more: Requirements) -> tuple[Requirements, ...]:
    return tuple(term.with_(more) for term in terms or (Requirements(),))


def held_back(
    plan: Plan, pods: Sequence[Pod], waits: Waits, pools: Mapping[str, NodePool], prices: TypeChoiceExplainer
) -> tuple[Plan, dict[str, ShortageWait]]:
    """Return the second plan without nodes that none of its pods accepts, and what the pods without a node wait for.

    Args:
        plan: the plan for the pods of `elsewhere`.
        pods: the pods as they are.
        waits: what the first plan would have cost them.
        pools: the NodePools by name.
        prices: as for `dear_nodes`.
    """
    original = {pod.uid: pod for pod in pods}
    again = dear_nodes(plan, pools, prices)
    claims, waiting = [], {key: wait for key, wait in waits.items() if key in plan.unschedulable}
    for claim in plan.claims:
        if all(pod.key in again for pod in claim.pods) and claim.pods:
            waiting |= {pod.key: waits.get(pod.key, again[pod.key]) for pod in claim.pods}
        else:
            claims.append(replace(claim, pods=tuple(original.get(pod.uid, pod) for pod in claim.pods)))
    why = {key: NoPlace.in_pool(wait.pool, price_obstacle(wait)) for key, wait in waiting.items()}
    placements = {node: tuple(original.get(pod.uid, pod) for pod in placed) for node, placed in plan.placements.items()}
    unschedulable = {**plan.unschedulable, **why}
    return replace(plan, claims=tuple(claims), placements=placements, unschedulable=unschedulable), waiting


def without_dear_types(plan: Plan, pools: Mapping[str, NodePool], prices: TypeChoiceExplainer) -> Plan:
    """Return the plan without types that are too dear for NodeClaims whose pods would rather wait.

    EC2 buys any type of a request, so it would buy these in a shortage that no plan knows of yet. NodeClaims with
    ``minValues`` keep all their types.
    """
    return replace(plan, claims=tuple(_with_usual_types(claim, pools, prices) for claim in plan.claims))


def _with_usual_types(claim: PlannedClaim, pools: Mapping[str, NodePool], prices: TypeChoiceExplainer) -> PlannedClaim:
    annotations = pools[claim.pool].metadata.annotations
    flexible = not any(requirement.min_values for requirement in claim.requirements.values())
    if not waits_in_shortage(annotations) or not flexible or any(pod.buys_in_shortage for pod in claim.pods):
        return claim
    usual = prices.usual(claim)
    least = claim.price if usual is None else usual.price
    affordable = prices.types_up_to(claim, least * price_factor(annotations))
    return replace(claim, instance_types=affordable) if affordable else claim


def _wait(claim: PlannedClaim, pools: Mapping[str, NodePool], prices: TypeChoiceExplainer) -> ShortageWait | None:
    annotations = pools[claim.pool].metadata.annotations
    if not waits_in_shortage(annotations):
        return None
    usual, factor = prices.usual(claim), price_factor(annotations)
    if usual is None or not is_far_dearer(claim.price, usual.price, factor):
        return None
    from tenon.messages.provisioning import ShortageWait

    return ShortageWait(
        pool=claim.pool,
        instance_type=claim.offering.instance_type,
        price=claim.price,
        usual_type=usual.instance_type,
        usual_count=usual.count,
        usual_price=usual.price,
        until=usual.next_attempt,
    )


def grouped(waits: Waits) -> list[ShortageWait]:
    """Return one wait for all pods that wait for the same, with their number and the name of one of them.

    At most `MAX_GROUPS`, those with the most pods.
    """
    pods: dict[tuple[str, str, str], list[str]] = {}
    for key, wait in sorted(waits.items()):
        pods.setdefault((wait.pool, wait.instance_type, wait.usual_type), []).append(key)
    most = sorted(pods.values(), key=len, reverse=True)[:MAX_GROUPS]
    return [evolve(waits[keys[0]], pods=len(keys), pod=keys[0]) for keys in sorted(most)]
