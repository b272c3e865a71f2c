"""What a NodePool may buy and what it may lose now: limits, cheapest types, budgets, drift, consolidation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tenon.apis.nodepool import NodePool
from tenon.disruption.freezes.freeze import FROZEN_REASONS, frozen_now
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.budgets import UNLIMITED, opens_at
from tenon.disruption.rules.pool_budgets import BudgetState, budget_states
from tenon.disruption.situation import Situation
from tenon.ec2.launch.filters import compatible
from tenon.kube.timestamps import spoken, time_text
from tenon.money import per_hour
from tenon.resources import NODES, Resources, format_quantity, parse_resources
from tenon.schedule.desired import Desired
from tenon.schedule.node_pools import in_words
from tenon.scheduling.goals import goal_sentences
from tenon.scheduling.model import Node, Pool
from tenon.scheduling.offerings.hourly_cost import COSTS, HOURLY_COST, TOTAL_HOURLY_COST, dollars_text
from tenon.sentences import counted, first_few
from tenon.simulation.document import Document

TYPES = 5
"""How many of the cheapest types are named."""
_LIMITS = {
    NODES: "nodes",
    HOURLY_COST: "dollars an hour",
    TOTAL_HOURLY_COST: "dollars an hour of all NodePools",
}
"""Names of limits for people."""
SHOWN = 3
"""How many nodes, pods or reasons are named."""


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """Sentences about a NodePool by what they are about, each without a period."""

    name: str
    sections: Mapping[str, Sequence[str]]


def pool_facts(
    pool: NodePool,
    *,
    unusable: str,
    usage: Resources,
    engine_pool: Pool | None,
    situation: Situation,
    plan: Document,
    schedules_ask: Desired,
    costs: Resources,
    engine_nodes: Sequence[Node] = (),
) -> PoolFacts:
    """Return what is true of a NodePool.

    Args:
        pool: the NodePool.
        unusable: why it launches no nodes for pods; empty if it does.
        usage: what its nodes and NodeClaims use of its limits.
        engine_pool: the NodePool as the engine has it; None if it is unusable.
        situation: all nodes, as disruption has them.
        plan: the plan for the pending pods, and the commands and the nodes that stay.
        schedules_ask: what NodeSchedules ask for now.
        costs: its limits on costs.
        engine_nodes: all nodes, as the engine has them.
    """
    nodes = [node for node in situation.nodes if node.pool == pool.metadata.name]
    return PoolFacts(
        pool.metadata.name,
        {
            "Buys": list(_buys(pool, unusable, engine_pool, plan)),
            "Schedule": _schedule(pool.metadata.name, schedules_ask),
            "Limits": _limits(pool, usage, costs),
            "Goals": goal_sentences(engine_pool, engine_nodes) if engine_pool is not None else [],
            "Cheapest": cheapest(engine_pool) if engine_pool is not None else [],
            "Nodes": _nodes(nodes),
            "Budgets": _budgets(pool.metadata.name, situation),
            "Consolidation": _consolidation(pool, nodes, plan),
        },
    )


def _buys(pool: NodePool, unusable: str, engine_pool: Pool | None, plan: Document) -> list[str]:
    if unusable:
        return [f"It buys no nodes for pods: {unusable}"]
    if engine_pool is not None and engine_pool.lacking:
        return [f"It buys no nodes: {engine_pool.why_lacking}"]
    name = pool.metadata.name
    new = [entry for entry in plan["nodeClaims"] if entry["nodePool"] == name]
    sentences = []
    if new:
        price, count = sum(entry["price"] for entry in new), sum(len(entry["pods"]) for entry in new)
        sentences.append(
            f"It buys {counted(len(new), 'node')} now, for {counted(count, 'pending pod')}: {per_hour(price)}"
        )
    reasons: dict[str, list[str]] = {}
    for entry in plan["unschedulable"]:
        for clause in entry["clauses"]:
            if clause["nodePool"] == name:
                reasons.setdefault(clause["why"], []).append(entry["pod"])
    for why, pods in sorted(reasons.items(), key=lambda item: -len(item[1]))[:SHOWN]:
        sentences.append(f"It buys nothing for {first_few(pods, 1)}: {why}")
    if not sentences:
        sentences.append("It may buy nodes; no pending pod needs one of them now")
    return sentences


def _schedule(name: str, schedules_ask: Desired) -> list[str]:
    demand, until = schedules_ask.pools.get(name), schedules_ask.until.get(name)
    if demand is None:
        return []
    words = in_words(demand)
    opens = schedules_ask.opens.get(name) if not demand.launches else None
    end = f" until {spoken(until)}" if until is not None else ""
    cause = f", by NodeSchedule {', '.join(demand.entries)}" if demand.entries else ""
    opening = f"; it opens on {spoken(opens)}" if opens is not None and opens != until else ""
    return [f"{words[:1].upper()}{words[1:]}{end}{cause}{opening}"]


def _limits(pool: NodePool, usage: Resources, costs: Resources) -> list[str]:
    limits = parse_resources(dict(pool.spec.limits)) | costs
    if not limits:
        return ["It has no limits: a mistake in a Deployment may cost any amount"]
    sentences = []
    for resource, most in sorted(limits.items()):
        used = usage.get(resource, 0)
        share = f" ({used / most:.0%})" if most else ""
        figures = f"{_amount(resource, used)} of {_amount(resource, most)}{share}"
        full = ", so it buys no more" if used >= most else ""
        sentences.append(f"{_LIMITS.get(resource, resource)}: {figures}{full}")
    return sentences


def _amount(resource: str, units: int) -> str:
    return dollars_text(units) if resource in COSTS else format_quantity(resource, units)


def cheapest(pool: Pool) -> list[str]:
    """Return the cheapest types that a NodePool may buy, each with its cheapest offering."""
    sold_zones = frozenset(offering.zone for kind in pool.instance_types for offering in kind.offerings)
    best: list[tuple[float, str, str]] = []
    for choice in compatible(pool.requirements, {}, pool.instance_types, pool.zones or sold_zones):
        offering = min(choice.offerings, key=lambda offering: (offering.price, offering.zone))
        best.append((offering.price, choice.type.name, f"{offering.capacity_type}, {offering.zone}"))
    best.sort()
    more = [f"and {len(best) - TYPES} more types"] if len(best) > TYPES else []
    return [f"{name} at {per_hour(price)} ({where})" for price, name, where in best[:TYPES]] + more


def _nodes(nodes: Sequence[ManagedNode]) -> list[str]:
    if not nodes:
        return ["It has no nodes"]
    groups = {
        "not ready": [node for node in nodes if not node.ready],
        "drifted": [node for node in nodes if node.drifted],
        "leaving": [node for node in nodes if node.leaving],
        "empty": [node for node in nodes if node.empty],
        "protected by an annotation": [node for node in nodes if node.protected_by],
    }
    parts = [
        f"{len(members)} {state} ({first_few(sorted(node.node or node.claim for node in members), SHOWN)})"
        for state, members in groups.items()
        if members
    ]
    return [counted(len(nodes), "node"), *parts]


def _budgets(name: str, situation: Situation) -> list[str]:
    by_text: dict[str, list[str]] = {}
    frozen = frozen_now(situation.policies[name].freezes, situation.now) if name in situation.policies else None
    for state in budget_states(situation):
        if state.pool == name:
            text = _budget(state, situation)
            if frozen is not None and state.reason in FROZEN_REASONS:
                text = f"no node may go now, because the NodePool is {frozen.clause}"
            by_text.setdefault(text, []).append(state.reason.value)
    return [f"{', '.join(reasons)}: {text}" for text, reasons in by_text.items()]


def _budget(state: BudgetState, situation: Situation) -> str:
    if state.closed:
        return f"no node may go now, because {state.closed}"
    if state.allowed == UNLIMITED:
        return "all nodes may go at once"
    remaining = max(0, state.allowed - state.consuming)
    text = f"{remaining} of {counted(state.total, 'node')} may go now"
    if state.consuming:
        text += f", and {state.consuming} {'goes' if state.consuming == 1 else 'go'} already"
    if remaining or not state.total:
        return text
    policy = situation.policies[state.pool]
    opens = opens_at(policy.budgets, state.reason, total=state.total, unavailable=state.consuming, now=situation.now)
    return f"{text}; the next at {time_text(opens)}" if opens is not None else text


def _consolidation(pool: NodePool, nodes: Sequence[ManagedNode], plan: Document) -> list[str]:
    disruption = pool.spec.disruption
    sentences = [f"{disruption.consolidation_policy}, consolidateAfter {disruption.consolidate_after}"]
    names = {entry["node"] for entry in plan.get("staying", ()) if entry["nodePool"] == pool.metadata.name}
    own_names = {node.node or node.claim for node in nodes}
    for entry in plan["disruption"]:
        if own_names.isdisjoint(entry["candidates"]):
            continue
        sentences.append(f"{entry['reason']} now: {first_few(entry['candidates'], SHOWN)}, {_saving(entry)}")
    reasons: dict[str, list[str]] = {}
    for entry in plan.get("staying", ()):
        if entry["node"] in names and entry["why"]:
            reasons.setdefault(entry["why"][0], []).append(entry["node"] or entry["nodeClaim"])
    for why, staying in sorted(reasons.items(), key=lambda item: -len(item[1]))[:SHOWN]:
        sentences.append(f"{counted(len(staying), 'node')} {'stays' if len(staying) == 1 else 'stay'}: {why}")
    return sentences


def _saving(entry: Mapping[str, Any]) -> str:
    saving = entry["savingPerHour"]
    return f"which saves {per_hour(saving)}" if saving >= 0 else f"which costs {per_hour(-saving)} more"


def facts_document(facts: PoolFacts) -> Document:
    """Return the facts as JSON."""
    sections = {title[:1].lower() + title[1:]: list(sentences) for title, sentences in facts.sections.items()}
    return {"nodePool": facts.name} | sections
