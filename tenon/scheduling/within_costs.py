"""Plans as if nothing limited costs, and takes that plan if the limits allow it.

Within limits, the engine packs nodes one after another, which costs more than packing them as a whole. A limit on costs
is often far from used up, so most plans need not know of it: if the limits allow whatever EC2 may choose, the plan
stays as it is. Otherwise each claim is of one capacity type and leaves out the types that could break a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tenon.apis import labels
from tenon.scheduling.model import Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.hourly_cost import COSTS, HOURLY_COST, TOTAL_HOURLY_COST, cost_as, limits_cost
from tenon.scheduling.offerings.narrowing import Markets, Sale, narrowed


def solve_within_costs(problem: Problem, solve: Callable[[Problem], Plan]) -> Plan:
    """Return the plan of a problem, in which limits on costs may apply.

    ``solve`` plans a problem with or without such limits.
    """
    if not any(map(limits_cost, problem.pools)):
        return solve(problem)
    free = solve(replace(problem, pools=[_without_cost_limits(pool) for pool in problem.pools]))
    pools = {pool.name: pool for pool in problem.pools}
    markets = {name: Markets(pool) for name, pool in pools.items() if limits_cost(pool)}
    return _as_planned(free, pools, markets) or _within(free, pools, markets) or solve(problem)


def _without_cost_limits(pool: Pool) -> Pool:
    return replace(pool, limits={name: most for name, most in (pool.limits or {}).items() if name not in COSTS} or None)


def _as_planned(plan: Plan, pools: Mapping[str, Pool], markets: Mapping[str, Markets]) -> Plan | None:
    """Return the plan with what its claims cost at most, each as whatever it allows; None if a limit may not allow it.

    Such claims keep their choice of capacity types, so that EC2 may launch one where it lacks the other.
    """
    limits = {name: _limits_of(pools[name]) for name in markets}
    remaining = {
        key: (pools[name].limits or {})[key[0]] - pools[name].usage.get(key[0], 0)
        for name, keys in limits.items()
        for key in keys.items()
    }
    claims: list[PlannedClaim] = []
    for claim in plan.claims:
        if claim.pool in markets:
            cost = markets[claim.pool].of(claim).dearest()
            for key in limits[claim.pool].items():
                remaining[key] -= cost
                if remaining[key] < 0:
                    return None
            claims.append(replace(claim, largest={**claim.largest, **dict.fromkeys(limits[claim.pool], cost)}))
        else:
            claims.append(claim)
    return replace(plan, claims=tuple(claims))


def _limits_of(pool: Pool) -> dict[str, str]:
    """Return the limits on costs of a pool, each with the key of what they share: the NodePool, or all of them."""
    shared = {HOURLY_COST: pool.name, TOTAL_HOURLY_COST: ""}
    return {name: key for name, key in shared.items() if name in (pool.limits or {})}


@dataclass(frozen=True, slots=True)
class _Choice:
    """How a claim may be bought, and what its node counts at most."""

    claim: PlannedClaim
    capacity_type: str
    """Empty for a claim that stays open."""
    sales: Sequence[Sale]
    """The types that it lists, cheapest first."""
    limits: Mapping[str, str]
    """The limits that count it, each with the key of what they share: the NodePool, or all of them."""

    def cost(self, sale: Sale) -> int:
        """What a node of the type costs at most, in micro-dollars an hour."""
        key = cost_as(self.capacity_type) if self.capacity_type else next(iter(self.limits))
        return sale.kind.capacity.get(key, 0)

    def within(self, extra: int) -> PlannedClaim:
        """Return the claim with the types that cost so much more than its cheapest type."""
        most = self.cost(self.sales[0]) + extra
        kept_sales = [sale for sale in self.sales if self.cost(sale) <= most]
        claim = narrowed(self.claim, kept_sales, self.capacity_type)
        return replace(claim, largest={**claim.largest, **dict.fromkeys(self.limits, max(map(self.cost, kept_sales)))})


def _within(plan: Plan, pools: Mapping[str, Pool], markets: Mapping[str, Markets]) -> Plan | None:
    """Return the plan with claims that stay within the limits, whatever EC2 chooses; None if that is not possible."""
    choices: dict[int, _Choice] = {}
    for number, claim in enumerate(plan.claims):
        if claim.pool in markets:
            if any(requirement.min_values for requirement in claim.requirements.values()):
                return None  # fewer types may be too few
            choices[number] = _choice(claim, pools[claim.pool], markets[claim.pool])
    remaining: dict[tuple[str, str], int] = {}
    counts: dict[tuple[str, str], int] = {}
    for choice in choices.values():
        for name, shared in choice.limits.items():
            key = name, shared
            if key not in remaining:
                pool = pools[choice.claim.pool]
                remaining[key] = (pool.limits or {})[name] - pool.usage.get(name, 0)
            remaining[key] -= choice.cost(choice.sales[0])
            counts[key] = counts.get(key, 0) + 1
    if any(amount < 0 for amount in remaining.values()):
        return None
    extra = {key: amount // counts[key] for key, amount in remaining.items()}
    claims = [
        choices[number].within(min(extra[key] for key in choices[number].limits.items()))
        if number in choices
        else claim
        for number, claim in enumerate(plan.claims)
    ]
    return replace(plan, claims=tuple(claims))


def _choice(claim: PlannedClaim, pool: Pool, markets: Markets) -> _Choice:
    is_mixed = pool.goals is not None and pool.goals.spot_share is not None
    is_open = is_mixed and claim.offering.capacity_type != labels.RESERVED
    capacity_type = "" if is_open else claim.offering.capacity_type
    return _Choice(claim, capacity_type, markets.of(claim).of(capacity_type), _limits_of(pool))
