"""A plan as the document that ``tenon simulate -o json`` prints: the same plan gives the same text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tenon.kube.pod import Pod
from tenon.resources import format_resources
from tenon.scheduling.explanation.type_choice import Winners
from tenon.scheduling.model import Plan, PlannedClaim, Problem

Document = dict[str, Any]

_PARTS = ("nodeClaims", "existingNodes", "unschedulable", "disruption")
_DIGITS = 6


def plan_document(
    plan: Plan,
    *,
    problem: Problem,
    refused: Mapping[str, str],
    promised: Mapping[str, Sequence[Pod]],
    disruption: Sequence[Document],
    lower_bounds: tuple[float, float],
    solve_seconds: float,
) -> Document:
    """The document of a plan.

    ``problem`` is what was decided. Pods that were never asked about are ``refused``, with the reason, or ``promised``
    to nodes by earlier plans. ``lower_bounds`` are those of the price, and of the price with the charge for each node.
    """
    price = sum(claim.price for claim in plan.claims)
    least, least_with_charge = lower_bounds
    winners = Winners(problem)
    numbers: Counter[str] = Counter()
    claims = []
    for claim in plan.claims:
        numbers[claim.pool] += 1
        claims.append(claim_entry(claim, f"{claim.pool}-{numbers[claim.pool]}", winners.why(claim)))
    unschedulable = {**plan.unschedulable, **refused}
    there = {
        node: [*promised.get(node, ()), *plan.placements.get(node, ())]
        for node in sorted({*promised, *plan.placements})
    }
    placed = {node: [pod.key for pod in there[node]] for node in sorted(there) if there[node]}
    count = sum(len(claim["pods"]) for claim in claims) + sum(map(len, placed.values())) + len(unschedulable)
    return {
        "nodeClaims": claims,
        "existingNodes": [{"name": node, "pods": pods} for node, pods in placed.items()],
        "unschedulable": [{"pod": key, "reason": unschedulable[key]} for key in sorted(unschedulable)],
        "disruption": list(disruption),
        "totals": {
            "pods": count,
            "unschedulable": len(unschedulable),
            "nodes": len(claims),
            "pricePerHour": round(sum(claim["price"] for claim in claims), _DIGITS),
            "lowerBoundPricePerHour": round(least, _DIGITS),
            "costPerHour": round(price + problem.node_charge * len(claims), _DIGITS),
            "lowerBoundCostPerHour": round(least_with_charge, _DIGITS),
            "nodeCharge": round(problem.node_charge, _DIGITS),
            "maxWorkloadSharePerNode": round(problem.most_pods_share, _DIGITS),
            "solveSeconds": round(solve_seconds, 4),
        },
    }


def claim_entry(claim: PlannedClaim, name: str, why: str = "") -> Document:
    """A planned node; ``why`` its cheapest type is what it is."""
    capacity_type, instance_type, zone = claim.offering
    return {
        "name": name,
        "nodePool": claim.pool,
        "instanceTypes": list(claim.instance_types),
        "price": round(claim.price, _DIGITS),
        "offering": {"instanceType": instance_type, "zone": zone, "capacityType": capacity_type},
        "why": why,
        "requirements": claim.requirements.to_selectors(),
        "requests": format_resources(claim.requests),
        "pods": [pod.key for pod in claim.pods],
    }


def to_json(document: Document) -> str:
    """One object, one line for each claim, node and pod in it, so that two plans compare line by line."""
    lines = []
    for part in _PARTS:
        entries = ",\n  ".join(_compact(entry) for entry in document[part])
        lines.append(f' "{part}": [\n  {entries}]' if entries else f' "{part}": []')
    lines.append(f' "totals": {_compact(document["totals"])}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
