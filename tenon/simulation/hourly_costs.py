"""What a simulation says of limits on costs: the limit, what is used of it, and what the plan adds at most."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tenon.apis.hourly_cost import MICRO_DOLLARS
from tenon.money import per_hour, price_text
from tenon.scheduling.model import Plan, Pool, Problem
from tenon.scheduling.offerings.hourly_cost import HOURLY_COST, TOTAL_HOURLY_COST


def hourly_costs(problem: Problem, plan: Plan) -> list[dict[str, Any]]:
    """Return an entry for each limit on costs, in dollars an hour. That of all NodePools names none of them."""
    planned: dict[str, int] = {}
    total = 0
    for claim in plan.claims:
        planned[claim.pool] = planned.get(claim.pool, 0) + claim.largest.get(HOURLY_COST, 0)
        total += claim.largest.get(TOTAL_HOURLY_COST, 0)
    pools = sorted(problem.pools, key=lambda pool: pool.name)
    entries = [
        {"nodePool": pool.name, **_entry(pool, HOURLY_COST, planned.get(pool.name, 0))}
        for pool in pools
        if HOURLY_COST in (pool.limits or {})
    ]
    together = [_entry(pool, TOTAL_HOURLY_COST, total) for pool in pools if TOTAL_HOURLY_COST in (pool.limits or {})]
    return entries + together[:1]


def _entry(pool: Pool, name: str, planned: int) -> dict[str, float]:
    amounts = {"limit": (pool.limits or {})[name], "used": pool.usage.get(name, 0), "plannedAtMost": planned}
    return {key: amount / MICRO_DOLLARS for key, amount in amounts.items()}


def cost_sentences(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each limit on costs of a document, without a period."""
    for entry in document.get("hourlyCosts", ()):
        whose = f"NodePool {entry['nodePool']}" if "nodePool" in entry else "All NodePools together"
        yield (
            f"{whose} may cost {per_hour(entry['limit'])}: nodes that exist cost {price_text(entry['used'])}, and new "
            f"ones at most {price_text(entry['plannedAtMost'])}"
        )
