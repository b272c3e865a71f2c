"""Places as many pods as possible where the limits of NodePools bind, and minimizes the price only among such plans.

Without limits, the largest pods are placed first, because small ones fill the gaps. Where limits bind, that places few
pods: one large pod takes the room of many small ones, and the type with the best price may use up more of the limit
than another type that holds the same pods. So pods of the highest priority come first, then the smallest, and types
are also compared by how much of the limits they use up. A search finds how many pods fit. The pods that remain are
still offered the room that is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tenon.kube.pod import Pod
from tenon.resources import CPU, MEMORY, NODES
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.deadline import Expired, never
from tenon.scheduling.engine import solve
from tenon.scheduling.limited.limited_packing import level
from tenon.scheduling.model import InstanceType, Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.commitments import covered_price
from tenon.scheduling.offerings.hourly_cost import COSTS, micro_dollars
from tenon.scheduling.offerings.limits import counts_nodes
from tenon.scheduling.offerings.type_table import TypeTables
from tenon.scheduling.pods.pod_classes import resource_names
from tenon.scheduling.within_costs import solve_within_costs

PRICE_WEIGHT = 1e-6
"""How much a dollar an hour counts next to the limits when types are compared by what they use up: it breaks ties."""
EFFORT = 40_000
"""Pods to place, over all plans of one search. Large batches are searched less finely."""


def solve_for_most_pods(
    problem: Problem, expired: Expired = never, tables: TypeTables | None = None, columns: Columns | None = None
) -> Plan:
    """Return the engine's plan, or a better one if a pod has no place because of a NodePool's limits.

    The better plan places more pods in all, and no fewer of the highest priority. Of several, the one with most pods of
    the highest priority, then of the next, and then with the least price is taken. Once the time has ``expired``, the
    plan is the best that was found so far. ``columns`` collects why programs failed.
    """
    type_tables, generation = tables or TypeTables(), columns or Columns()
    return solve_within_costs(problem, lambda limited: _for_most_pods(limited, expired, type_tables, generation))


def _for_most_pods(problem: Problem, expired: Expired, tables: TypeTables, columns: Columns) -> Plan:
    plan = solve(problem, expired, tables, columns=columns)
    limited = {pool.name for pool in problem.pools if pool.limits}
    if not (plan.unschedulable and limited) or expired():
        return plan
    least = columns.least_unplaced if columns.least_unplaced is not None and not plan.placements else 0
    lowest = max(map(level, problem.pods))

    def has_most_pods(candidate: Plan) -> bool:
        """Whether no plan places more pods, and those without a place are of the lowest priority."""
        return _unplaced(candidate) <= least and all(
            level(pod) == lowest for pod in problem.pods if not _holds(candidate, [pod])
        )

    if has_most_pods(plan):
        return plan
    if not (plan.placements or any(claim.pool in limited for claim in plan.claims)):
        return plan  # the limits are used up: there is no room that other pods could have instead
    unlimited = replace(problem, pools=[replace(pool, limits=None) for pool in problem.pools])
    free = solve(unlimited, expired, tables)
    if expired() or all(key in free.unschedulable for key in plan.unschedulable):
        return plan
    reachable = [pod for pod in problem.pods if pod.key not in free.unschedulable]
    scarce, own = _priced_by_limits(problem), TypeTables()

    def better(candidate: Plan) -> bool:
        """Whether it places more pods. Among as many, the order of the queue decides (SCH-010)."""
        return _unplaced(candidate) < _unplaced(plan)

    best, fit, tries = plan, 0, EFFORT // (2 * len(problem.pods))
    best_last: frozenset[str] | None = frozenset()
    for order in _orders(reachable, problem):
        low, high = max(fit, _prefix(best, order)), len(reachable) + 1
        number = low + 1 if fit else (low + high) // 2  # a later order is rarely better: try it once
        while high - low > 1 and tries > 0 and not expired() and not has_most_pods(best):
            tries -= 1
            last = frozenset(pod.key for pod in order[number:])
            plans = [
                solve(problem, expired, tables, last),
                _with_prices(solve(scarce, expired, own, last), problem, tables),
            ]
            best = min([best, *filter(better, plans)], key=lambda candidate: _rank(candidate, problem.pods))
            best_last = last if best is plans[0] else None if best in plans else best_last
            if any(_holds(candidate, order[:number]) for candidate in plans):
                low = number
            else:
                high = number
            number = (low + high) // 2
        fit = max(fit, low, _prefix(best, order))
    if best is plan or best_last is None or expired():
        return best
    repacked = solve(problem, expired, tables, best_last, columns=columns)
    return min(best, repacked, key=lambda candidate: _rank(candidate, problem.pods))


def _unplaced(plan: Plan) -> int:
    return len(plan.unschedulable) + len(plan.unreached)


def _holds(plan: Plan, pods: Iterable[Pod]) -> bool:
    return all(pod.key not in plan.unschedulable and pod.key not in plan.unreached for pod in pods)


def _prefix(plan: Plan, pods: Sequence[Pod]) -> int:
    """How many pods have a place, if all have the same priority; otherwise those before the first that has none."""
    if len({level(pod) for pod in pods}) == 1:
        return sum(_holds(plan, [pod]) for pod in pods)
    return next((number for number, pod in enumerate(pods) if not _holds(plan, [pod])), len(pods))


def _rank(plan: Plan, pods: Sequence[Pod]) -> tuple[tuple[int, ...], float]:
    """Sort key, the best plan first."""
    without = Counter(level(pod) for pod in pods if pod.key in plan.unschedulable or pod.key in plan.unreached)
    levels = sorted(set(map(level, pods)))
    return tuple(without[pod_level] for pod_level in levels), round(sum(claim.price for claim in plan.claims), 9)


def _orders(pods: Sequence[Pod], problem: Problem) -> Iterator[list[Pod]]:
    """Yield orders of the pods: the highest priority first, then the smallest, then as they are queued.

    The size of a pod is its share of what is limited, of CPU and memory together, or of one of them.
    """
    limited = {name for pool in problem.pools for name in pool.limits or {} if not counts_nodes(name)}
    bound = tuple(name for name in resource_names(pods) if name in limited)
    ways = dict.fromkeys([bound, (CPU, MEMORY), (CPU,), (MEMORY,)])
    totals = Counter[str]()
    for pod in pods:
        totals.update(pod.requests)

    for names in filter(None, ways):
        sizes = {
            pod.key: round(sum(pod.requests.get(name, 0) / (totals[name] or 1) for name in names), 12) for pod in pods
        }
        yield sorted(pods, key=lambda pod: (level(pod), sizes[pod.key], pod.created, pod.uid, pod.key))


def _priced_by_limits(problem: Problem) -> Problem:
    """Return the problem with types that cost what they use up of their NodePool's limits."""
    return replace(problem, pools=[_pool_priced_by_limits(pool) for pool in problem.pools], node_charge=0.0)


def _pool_priced_by_limits(pool: Pool) -> Pool:
    if not pool.limits:
        return pool
    remaining = {name: limit - pool.usage.get(name, 0) for name, limit in pool.limits.items()}
    return replace(
        pool, instance_types=[_type_priced_by_limits(instance_type, remaining) for instance_type in pool.instance_types]
    )


def _type_priced_by_limits(instance_type: InstanceType, remaining: Mapping[str, int]) -> InstanceType:
    node_usage = {
        name: 1 if name == NODES else instance_type.capacity.get(name, 0) for name in remaining if name not in COSTS
    }
    share = sum(amount / max(1, remaining[name]) for name, amount in node_usage.items())
    cost_limits = [max(1, amount) for name, amount in remaining.items() if name in COSTS]

    def price(dollars: float) -> float:
        return share + sum(micro_dollars(dollars) / limit for limit in cost_limits) + PRICE_WEIGHT * dollars

    return replace(
        instance_type,
        offerings=tuple(replace(offering, price=price(offering.price)) for offering in instance_type.offerings),
    )


def _with_prices(plan: Plan, problem: Problem, tables: TypeTables) -> Plan:
    """Return the plan with the prices of the problem, and with the types of each claim in their order."""
    pools = {pool.name: pool for pool in problem.pools}
    names = resource_names([*problem.pods, *problem.daemons])
    return replace(
        plan, claims=tuple(_claim_with_price(claim, pools[claim.pool], names, tables) for claim in plan.claims)
    )


def _claim_with_price(claim: PlannedClaim, pool: Pool, names: tuple[str, ...], tables: TypeTables) -> PlannedClaim:
    table = tables.of(pool.instance_types, names)
    listed = set(claim.instance_types)
    market = table.market(claim.requirements)
    sales = sorted(sale for number, sale in market.best.items() if table.types[number].name in listed)
    return replace(
        claim,
        instance_types=tuple(sale.instance_type for sale in sales),
        price=covered_price(sales[0].price) if claim.commitment else sales[0].price,
        offering=sales[0].key,
    )
