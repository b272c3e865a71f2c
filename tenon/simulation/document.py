"""Formats a plan as the document of ``tenon simulate -o json``. The same plan always gives the same text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import Clause, NoPlace, Obstacle, ObstacleKind
from tenon.messages.base import REBOOT
from tenon.resources import format_resources
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import Plan, PlannedClaim, Problem
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.simulation.hourly_costs import hourly_costs

if TYPE_CHECKING:
    from tenon.disruption.decision import Command

Document = dict[str, Any]
_NONE: Mapping[str, Any] = MappingProxyType({})

_PARTS = (
    "nodeClaims",
    "existingNodes",
    "unschedulable",
    "disruption",
    "staying",
    "forecast",
    "consolidatedElsewhere",
    "rollouts",
    "hourlyCosts",
)
DIGITS = 6
"""Of a price in the document."""


@dataclass(frozen=True, slots=True)
class DisruptionPart:
    """What a document says about disruption, if that was asked."""

    commands: Sequence[Document]
    staying: Sequence[Document]
    """Why the other nodes stay."""
    totals: Document
    """Of the nodes of NodePools, before and after the commands."""
    rollouts: Sequence[Document]
    """The waves of NodeRollouts, by NodePool with nodes of an earlier version."""
    forecast: Sequence[Document]
    """The next times at which consolidation may act, and what it would do; empty if it acts now, or never by itself."""
    consolidated_elsewhere: Sequence[str] = ()
    """The nodes that consolidation would remove now by commands that are left out, because one node was asked."""


class LowerBounds(NamedTuple):
    """The least that any plan could reach."""

    price: float = 0.0
    with_charge: float = 0.0
    """The price including the charge for each node."""
    sizing: float = 0.0
    """The sizing cost."""


def plan_document(
    plan: Plan,
    *,
    problem: Problem,
    solve_seconds: float,
    lower_bounds: LowerBounds,
    refused: Mapping[str, str] = _NONE,
    nominated_pods: Mapping[str, Sequence[Pod]] = _NONE,
    disruption: DisruptionPart | None = None,
    winners: TypeChoiceExplainer | None = None,
    tables: TypeTables | None = None,
) -> Document:
    """Return the document of a plan.

    Args:
        plan: the plan.
        problem: the problem that the plan solves.
        solve_seconds: time that the solver took.
        lower_bounds: what the plan can be compared with.
        refused: reasons by pod, of pods that were excluded before planning.
        nominated_pods: pods by node, that earlier plans assigned.
        disruption: None if that was not asked.
        winners: explains the choice of types. None: the problem alone explains it.
        tables: those that the bounds were computed with.
    """
    price = sum(claim.price for claim in plan.claims)
    winners = winners or TypeChoiceExplainer(problem)
    numbers: Counter[str] = Counter()
    claims = []
    for claim in plan.claims:
        numbers[claim.pool] += 1
        claims.append(claim_entry(claim, f"{claim.pool}-{numbers[claim.pool]}", winners.why(claim)))
    unschedulable = {**plan.unschedulable, **{key: NoPlace.of(text) for key, text in refused.items()}}
    pods_by_node = {
        node: [*nominated_pods.get(node, ()), *plan.placements.get(node, ())]
        for node in sorted({*nominated_pods, *plan.placements})
    }
    placed = {node: [pod.key for pod in pods_by_node[node]] for node in sorted(pods_by_node) if pods_by_node[node]}
    count = sum(len(claim["pods"]) for claim in claims) + sum(map(len, placed.values())) + len(unschedulable)
    return {
        "nodeClaims": claims,
        "existingNodes": [{"name": node, "pods": pods} for node, pods in placed.items()],
        "unschedulable": [no_place_entry(key, unschedulable[key]) for key in sorted(unschedulable)],
        "disruption": list(disruption.commands) if disruption is not None else [],
        **({} if disruption is None else {"staying": list(disruption.staying)}),
        **({} if disruption is None else {"forecast": list(disruption.forecast)}),
        **(
            {"consolidatedElsewhere": list(disruption.consolidated_elsewhere)}
            if disruption is not None and disruption.consolidated_elsewhere
            else {}
        ),
        **({"rollouts": list(disruption.rollouts)} if disruption is not None and disruption.rollouts else {}),
        **({"hourlyCosts": costs} if (costs := hourly_costs(problem, plan)) else {}),
        "totals": {
            "pods": count,
            "unschedulable": len(unschedulable),
            "nodes": len(claims),
            "pricePerHour": round(sum(claim["price"] for claim in claims), DIGITS),
            "lowerBoundPricePerHour": round(lower_bounds.price, DIGITS),
            "costPerHour": round(price + problem.node_charge * len(claims), DIGITS),
            "lowerBoundCostPerHour": round(lower_bounds.with_charge, DIGITS),
            "sizingCostPerHour": round(sizing_cost(problem, plan, tables), DIGITS),
            "lowerBoundSizingCostPerHour": round(lower_bounds.sizing, DIGITS),
            "nodeCharge": round(problem.node_charge, DIGITS),
            "maxWorkloadSharePerNode": round(problem.most_pods_share, DIGITS),
            **(disruption.totals if disruption is not None else {}),
            "solveSeconds": round(solve_seconds, 4),
        },
    }


def claim_entry(claim: PlannedClaim, name: str, why: str = "") -> Document:
    """Format one planned node. ``why`` explains the choice of its cheapest type."""
    capacity_type, instance_type, zone = claim.offering[:3]
    return {
        "name": name,
        "nodePool": claim.pool,
        "instanceTypes": list(claim.instance_types),
        "price": round(claim.price, DIGITS),
        "offering": {"instanceType": instance_type, "zone": zone, "capacityType": capacity_type},
        "why": why,
        "requirements": claim.requirements.to_selectors(),
        "requests": format_resources(claim.requests),
        "pods": [pod.key for pod in claim.pods],
    }


def no_place_entry(pod: str, reason: NoPlace) -> Document:
    """Format why a pod has no place: in a sentence, and for each NodePool, or for none, what is in its way."""
    clauses = [
        {
            "nodePool": clause.pool,
            "obstacles": list(dict.fromkeys(obstacle.kind.value for obstacle in (*clause.refused, *clause.obstacles))),
            "why": clause.why,
        }
        for clause in reason.clauses
    ]
    return {"pod": pod, "reason": str(reason), "clauses": clauses}


def reason_of(entry: Document) -> NoPlace:
    """Return the reason in what `no_place_entry` formatted. Each clause is one obstacle, of the first kind."""
    return NoPlace(
        tuple(
            Clause(clause["nodePool"], (Obstacle(ObstacleKind(clause["obstacles"][0]), clause["why"]),))
            for clause in entry["clauses"]
        )
    )


def command_entry(command: Command, nodes: Mapping[str, str], price: float, first: int) -> Document:
    """Format a disruption command.

    Args:
        command: the command.
        nodes: by NodeClaim, the name of its Node.
        price: what its nodes cost an hour, which a command without replacements saves.
        first: the number of its first replacement.
    """
    reboots = command.decision == REBOOT
    entry = {
        "reason": command.reason.value,
        "method": command.method,
        "candidates": [nodes[candidate.node.claim] for candidate in command.candidates],
        "replacements": [
            claim_entry(claim, f"replacement-{number}") for number, claim in enumerate(command.new_claims, first)
        ],
        "savingPerHour": round(command.expected if command.moves_pods or reboots else price, DIGITS),
    }
    if reboots:
        entry["decision"] = command.decision
    if command.terminate_first is not None:
        entry["terminateFirst"] = command.terminate_first.reason.value
    if command.moves_pods:
        destinations = sorted(command.destinations.items())
        entry["existingNodes"] = [
            {"name": name, "pods": [pod.key for pod in pods]} for name, pods in destinations if pods
        ]
    if command.explanation:
        entry["explanation"] = list(command.explanation)
    return entry


def to_json(document: Document) -> str:
    """Format as one JSON object with one line per claim, node and pod, so that a line diff can compare two plans."""
    lines = []
    for part in _PARTS:
        if part not in document:
            continue
        entries = ",\n  ".join(_compact(entry) for entry in document[part])
        lines.append(f' "{part}": [\n  {entries}]' if entries else f' "{part}": []')
    lines.append(f' "totals": {_compact(document["totals"])}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
