"""Follows the goals of NodePools in a plan: of the nodes that hold a claim's pods, it keeps those that serve a goal.

Each instance type that a claim lists holds its pods, wherever and as whatever it is bought. So a claim may be narrowed
to a capacity type, a zone or some of its types, and every pod keeps its place. If EC2 refuses what is left, the pods
are planned again without what EC2 refused.

Goals are followed one after another: the capacity type, the zones with high Spot placement scores, the balance of
zones, the generation. Claims with ``minValues`` stay as they are, because they must keep their variety, and so do those
in capacity reservations and those that a commitment covers, which are paid for already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tenon.apis import labels
from tenon.apis.purchase_goals import Goals
from tenon.money import per_hour
from tenon.resources import CPU
from tenon.scheduling.model import InstanceType, Node, Plan, PlannedClaim, Pool, Problem
from tenon.scheduling.offerings.narrowing import Market, Markets, Sale, narrowed
from tenon.scheduling.offerings.spot_scores import scores_text, zone_scores
from tenon.scheduling.offerings.template import SPOT_FLEXIBILITY
from tenon.scheduling.reservations import reservation_of
from tenon.sentences import counted

_SAME_PRICE = 1e-9
"""Dollars an hour by which equal prices may differ."""


def follow_goals(plan: Plan, problem: Problem) -> Plan:
    """Return the plan with its claims narrowed as the goals of their NodePools ask. Without goals it is the same.

    ``problem``: what the plan was made for; its nodes count.
    """
    fleets = {pool.name: _Fleet(pool, pool.goals) for pool in problem.pools if pool.goals is not None}
    if not any(claim.pool in fleets for claim in plan.claims):
        return plan
    for node in problem.nodes:
        if (fleet := fleets.get(node.labels.get(labels.NODEPOOL, ""))) is not None:
            fleet.count_node(node)
    claims = list(plan.claims)
    followers = [(fleets[claim.pool], number) for number, claim in enumerate(claims) if claim.pool in fleets]
    for fleet, number in sorted(followers, key=lambda follower: follower[0].turn(claims[follower[1]])):
        claims[number] = fleet.followed(claims[number])
    return replace(plan, claims=tuple(claims))


def goal_sentences(pool: Pool, nodes: Iterable[Node]) -> list[str]:
    """Say what the goals of a NodePool are and how far its nodes meet them, each in a sentence without a period."""
    if pool.goals is None:
        return []
    goals, fleet = pool.goals, _Fleet(pool, pool.goals)
    for node in nodes:
        if node.labels.get(labels.NODEPOOL) == pool.name:
            fleet.count_node(node)
    sentences = []
    if goals.spot_share is not None:
        sentences.append(f"{labels.SPOT_SHARE} {100 * goals.spot_share:.4g}%: {fleet.share_text()}")
    if goals.placement_scores is not None:
        premium = f"{100 * goals.placement_scores:.4g}%"
        sentences.append(f"{labels.SPOT_PLACEMENT_SCORES}, up to {premium} dearer: {scores_text(pool)}")
    if goals.zone_balance is not None:
        sentences.append(f"{labels.ZONE_BALANCE}, up to {100 * goals.zone_balance:.4g}% dearer: {fleet.zones_text()}")
    if goals.newer_generations is not None:
        sentences.append(f"{labels.NEWER_GENERATIONS}, up to {100 * goals.newer_generations:.4g}% dearer")
    return sentences


class _Fleet:
    """The nodes of a NodePool with goals, those that exist and those that are planned."""

    def __init__(self, pool: Pool, goals: Goals) -> None:
        self._goals = goals
        self._by_capacity_type: Counter[str] = Counter()
        """Millicores."""
        self._by_zone: Counter[str] = Counter()
        """Millicores."""
        self._markets = Markets(pool)
        self._scores = zone_scores(pool)

    def count_node(self, node: Node) -> None:
        """Count a node or a claim in flight. One that may become spot counts as spot, which launches prefer."""
        capacity_type = node.labels.get(labels.CAPACITY_TYPE, "")
        if not capacity_type and node.requirements is not None:
            is_spot = node.requirements.get(labels.CAPACITY_TYPE).has(labels.SPOT)
            capacity_type = labels.SPOT if is_spot else labels.ON_DEMAND
        self._count(node.limited.get(CPU, 0), capacity_type, node.labels.get(labels.ZONE, ""))

    def share_text(self) -> str:
        """Say how much of the NodePool is on spot capacity."""
        everything = self._by_capacity_type.total()
        if not everything:
            return "it has no nodes"
        share = self._by_capacity_type[labels.SPOT] / everything
        return f"{share:.0%} of {_vcpus(everything)} are on spot capacity"

    def zones_text(self) -> str:
        """Say how many vCPUs the NodePool has in each zone."""
        zones = [f"{zone} {_vcpus(amount)}" for zone, amount in sorted(self._by_zone.items()) if zone]
        return ", ".join(zones) or "it has no nodes"

    def turn(self, claim: PlannedClaim) -> tuple[bool, int]:
        """Sort key: claims without a choice of capacity type first, then the largest, so that a share is met well."""
        market = self._markets.of(claim)
        has_choice = bool(market.of(labels.SPOT) and market.of(labels.ON_DEMAND))
        return has_choice, -self._cpu(claim)

    def followed(self, claim: PlannedClaim) -> PlannedClaim:
        """Return the claim as the goals ask, and count it."""
        is_paid = claim.commitment or reservation_of(claim)
        if not is_paid and not any(requirement.min_values for requirement in claim.requirements.values()):
            claim = self._narrowed(claim)
        self._count(self._cpu(claim), claim.offering.capacity_type, claim.offering.zone)
        return claim

    def _narrowed(self, claim: PlannedClaim) -> PlannedClaim:
        market = self._markets.of(claim)
        capacity_type = self._capacity_type(market)
        clauses: list[str] = []
        sales = market.of()
        if capacity_type:
            before, sales = sales, market.of(capacity_type)
            share = 100 * (self._goals.spot_share or 0)
            clauses.append(f"{labels.SPOT_SHARE} {share:.4g}%: {capacity_type}, {_costing(before, sales)}")
        least, zones = self._scored_zones(market, capacity_type, sales)
        if zones:
            before, sales = sales, market.of(capacity_type, zones)
            clauses.append(
                f"{labels.SPOT_PLACEMENT_SCORES}: a score of at least {least} in {', '.join(zones)}, "
                f"{_costing(before, sales)}"
            )
        if zone := self._zone(market, capacity_type, sales, zones):
            zones = (zone,)
            before, sales = sales, market.of(capacity_type, zones)
            clauses.append(
                f"{labels.ZONE_BALANCE}: the NodePool has the fewest vCPUs in {zone}, {_costing(before, sales)}"
            )
        if newer := self._newer(sales):
            oldest = min(sale.generation for sale in newer)
            clauses.append(
                f"{labels.NEWER_GENERATIONS}: no type older than generation {oldest}, {_costing(sales, newer)}"
            )
            sales = newer
        if not clauses:
            return claim
        return replace(narrowed(claim, sales, capacity_type, zones), goals=tuple(clauses))

    def _capacity_type(self, market: Market) -> str:
        """Return on-demand if that brings the vCPUs nearer to the share; empty if the claim stays open.

        An open one becomes spot if EC2 has spot capacity at a lower price, and on-demand otherwise.
        """
        share = self._goals.spot_share
        spot, on_demand = market.of(labels.SPOT), market.of(labels.ON_DEMAND)
        if share is None or not spot or not on_demand or on_demand[0].price < spot[0].price:
            return ""
        present, everything = self._by_capacity_type[labels.SPOT], self._by_capacity_type.total()
        more_spot, more_on_demand = _millicores(spot[0].kind), _millicores(on_demand[0].kind)
        off_with_spot = abs(present + more_spot - share * (everything + more_spot))
        off_with_on_demand = abs(present - share * (everything + more_on_demand))
        return labels.ON_DEMAND if off_with_on_demand < off_with_spot else ""

    def _scored_zones(self, market: Market, capacity_type: str, sales: Sequence[Sale]) -> tuple[int, tuple[str, ...]]:
        """Return the highest score of the zones that are not too dear, and the zones that score no less.

        These are none if that leaves out no zone, and for a claim that does not become spot. A zone without a score
        counts as the lowest, because AWS scores the best zones only.
        """
        premium, scores = self._goals.placement_scores, self._scores
        if premium is None or not scores or sales[0].offering.capacity_type != labels.SPOT:
            return 0, ()
        choices = _choices(market, capacity_type, market.zones(), sales, premium)
        least = max((scores.get(zone, 0) for zone in choices), default=0)
        zones = tuple(zone for zone in market.zones() if scores.get(zone, 0) >= least)
        return (least, zones) if len(zones) < len(market.zones()) else (0, ())

    def _zone(self, market: Market, capacity_type: str, sales: Sequence[Sale], zones: Sequence[str]) -> str:
        """Return the zone with the fewest vCPUs among those that are not too dear; empty if there is no choice.

        ``zones``: those that it may be; none for all.
        """
        premium = self._goals.zone_balance
        if premium is None:
            return ""
        choices = _choices(market, capacity_type, zones or market.zones(), sales, premium)
        if len(choices) < 2:
            return ""
        return min(choices, key=lambda zone: (self._by_zone[zone], choices[zone], zone))

    def _newer(self, sales: Sequence[Sale]) -> list[Sale]:
        """Return the types of the newest generations that are not too dear; empty if that leaves out none."""
        premium = self._goals.newer_generations
        if premium is None:
            return []
        enough = _flexibility(sales)
        for oldest in sorted({sale.generation for sale in sales if _within(sale.price, sales, premium)}, reverse=True):
            newer = [sale for sale in sales if sale.generation >= oldest]
            is_same = newer[0].offering.capacity_type == sales[0].offering.capacity_type
            if is_same and _within(newer[0].price, sales, premium) and _flexibility(newer) >= enough:
                return newer if len(newer) < len(sales) else []
        return []

    def _cpu(self, claim: PlannedClaim) -> int:
        return _millicores(self._markets.kinds[claim.offering.instance_type])

    def _count(self, millicores: int, capacity_type: str, zone: str) -> None:
        self._by_capacity_type[capacity_type] += millicores
        self._by_zone[zone] += millicores


def _choices(
    market: Market, capacity_type: str, zones: Sequence[str], sales: Sequence[Sale], premium: float
) -> dict[str, float]:
    """Return the zones that are not too dear and leave enough types, with their prices in dollars an hour."""
    enough = _flexibility(sales)
    return {
        zone: in_zone[0].price
        for zone in zones
        if (in_zone := market.of(capacity_type, (zone,)))
        and _within(in_zone[0].price, sales, premium)
        and in_zone[0].offering.capacity_type == sales[0].offering.capacity_type
        and _flexibility(in_zone) >= enough
    }


def _within(price: float, sales: Sequence[Sale], premium: float) -> bool:
    return price <= sales[0].price * (1 + premium) + _SAME_PRICE


def _flexibility(sales: Sequence[Sale]) -> int:
    """How many types a choice must leave: a spot node with few of them is interrupted more often."""
    is_spot = bool(sales) and sales[0].offering.capacity_type == labels.SPOT
    return min(SPOT_FLEXIBILITY, len(sales)) if is_spot else min(1, len(sales))


def _costing(before: Sequence[Sale], after: Sequence[Sale]) -> str:
    more = after[0].price - before[0].price
    return f"which costs {per_hour(more)} more" if more > _SAME_PRICE else "at the same price"


def _vcpus(millicores: int) -> str:
    return counted(round(millicores / 1000), "vCPU")


def _millicores(kind: InstanceType) -> int:
    return kind.capacity.get(CPU, 0)
