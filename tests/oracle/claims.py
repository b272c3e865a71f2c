"""What a plan says about its claims: pool, types, price, requests, minimum of values, limits, totals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from tests.oracle.beside_daemons import taken_in
from tests.oracle.conditions import HOST, POOL, read, surely
from tests.oracle.findings import Finding
from tests.oracle.inputs import Inputs
from tests.oracle.places import NewNode, Standing
from tests.oracle.quantities import amount, amounts, largest, plus

NEARLY = 2e-6


def check_claim(inputs: Inputs, claim: NewNode) -> Iterator[Finding]:
    """Everything that a claim says of itself."""
    if claim.pool is None:
        yield Finding("claim-pool", claim.name, f"there is no NodePool {claim.plan['nodePool']}")
        return
    if not claim.planned:
        yield Finding("claim-empty", claim.name, "has no pod")
    yield from _types(inputs, claim)
    if claim.ways:
        yield from _pool(inputs, claim)
        yield from _price(claim)
        yield from _requests(inputs, claim)
        yield from _values(claim)


def _types(inputs: Inputs, claim: NewNode) -> Iterator[Finding]:
    listed = claim.plan["instanceTypes"]
    for name, count in Counter(listed).items():
        if count > 1:
            yield Finding("claim-types", claim.name, f"{name} is listed {count} times")
        if name not in inputs.kinds:
            yield Finding("claim-types", claim.name, f"{name} is not in the catalogue")
        elif not any(kind.name == name for kind, _ in claim.ways):
            yield Finding("claim-types", claim.name, f"{name} cannot be bought as the claim wants it")
    if not listed:
        yield Finding("claim-types", claim.name, "lists no type")


def _pool(inputs: Inputs, claim: NewNode) -> Iterator[Finding]:
    assert claim.pool is not None
    if claim.pool.static:
        yield Finding("claim-pool", claim.name, "a static NodePool launches nothing for pods")
    for condition in claim.pool.conditions:
        if not all(surely(condition, labels[condition.key]) for labels in claim.futures((condition.key,))):
            yield Finding("claim-pool", claim.name, f"leaves open what its NodePool rules out for {condition.key}")
    defined = {condition.key for condition in claim.pool.conditions} | inputs.cloud_keys | {HOST}
    for condition in map(read, claim.plan["requirements"]):
        if condition.key not in defined and condition.operator not in ("NotIn", "DoesNotExist"):
            yield Finding("claim-pool", claim.name, f"its NodePool does not define {condition.key}")


def _price(claim: NewNode) -> Iterator[Finding]:
    cheapest: dict[str, float] = {}
    for kind, offer in claim.ways:
        cheapest[kind.name] = min(offer.price, cheapest.get(kind.name, offer.price))
    prices = [cheapest[name] for name in claim.plan["instanceTypes"] if name in cheapest]
    if any(later < earlier - NEARLY for earlier, later in pairwise(prices)):
        yield Finding("claim-price", claim.name, "its types are not cheapest first")
    price, offering = claim.plan["price"], claim.plan["offering"]
    if abs(price - min(cheapest.values())) > NEARLY:
        yield Finding("claim-price", claim.name, f"{price} is not the cheapest price, {min(cheapest.values())}")
    if not any(
        (kind.name, offer.zone, offer.capacity_type)
        == (offering["instanceType"], offering["zone"], offering["capacityType"])
        and abs(offer.price - price) <= NEARLY
        for kind, offer in claim.ways
    ):
        yield Finding("claim-price", claim.name, "its offering cannot be bought, or not at its price")


def _requests(inputs: Inputs, claim: NewNode) -> Iterator[Finding]:
    pods = plus(pod.requests for pod in claim.planned)
    right = plus((pods, largest(occupancy for _, occupancy in taken_in(inputs, claim))))
    declaration = amounts(claim.plan["requests"])
    wrong = sorted(name for name in {*right, *declaration} if right.get(name, 0) != declaration.get(name, 0))
    if wrong:
        yield Finding("claim-requests", claim.name, f"{', '.join(wrong)} are not those of its pods and DaemonSets")


def _values(claim: NewNode) -> Iterator[Finding]:
    assert claim.pool is not None
    for key, least in claim.pool.least_values.items():
        offered = {labels[key] for labels in claim.futures((key,))} - {None}
        if len(offered) < least:
            yield Finding("min-values", claim.name, f"{len(offered)} values of {key}, {least} are wanted")


def check_limits(inputs: Inputs, claims: Iterable[NewNode], nodes: Iterable[Standing]) -> Iterator[Finding]:
    """Every pool's limits, whichever types are launched; a pool that was above them before may get nothing more."""
    expected, present_items = list(claims), list(nodes)
    for pool in inputs.pools.values():
        mine = [claim for claim in expected if claim.pool is pool and claim.ways]
        if not mine:
            continue
        largests = [largest(kind.capacity for kind, _ in claim.ways) for claim in mine]
        for node in present_items:
            if node.labels.get(POOL) == pool.name:
                largests.append(amounts((inputs.nodes[node.name].get("status") or {}).get("capacity")))
        whole = {**plus(largests), "nodes": amount(len(largests))}
        for name, most in pool.limits.items():
            if whole.get(name, 0) > most:
                yield Finding("limits", pool.name, f"more {name} than its limit allows")


def check_reservations(claims: Iterable[NewNode]) -> Iterator[Finding]:
    """No reservation is counted on more often than it has places."""
    places: dict[str, int] = {}
    used: Counter[str] = Counter()
    for claim in claims:
        offering = claim.plan["offering"]
        for kind, offer in claim.ways:
            places.setdefault(offer.reservation, offer.places)
            bought = (kind.name, offer.zone, offer.capacity_type)
            if offer.reservation and bought == (offering["instanceType"], offering["zone"], offering["capacityType"]):
                used[offer.reservation] += 1
                break
    for reservation, count in used.items():
        if count > places[reservation]:
            yield Finding("reservations", reservation, f"{count} nodes for {places[reservation]} places")


def check_totals(inputs: Inputs, plan: Mapping[str, Any]) -> Iterator[Finding]:
    """The sums of a plan, and that each pending pod is in it once."""
    totals = plan["totals"]
    price = sum(claim["price"] for claim in plan["nodeClaims"])
    right = {
        "pods": len(inputs.pending),
        "unschedulable": len(plan["unschedulable"]),
        "nodes": len(plan["nodeClaims"]),
        "pricePerHour": price,
    }
    for name, value in right.items():
        if abs(totals[name] - value) > NEARLY * max(1, len(plan["nodeClaims"])):
            yield Finding("totals", name, f"{totals[name]} is stated, it is {value}")
    cost = price + totals.get("nodeCharge", 0) * len(plan["nodeClaims"])
    for name, reached in (
        ("lowerBoundPricePerHour", price),
        ("lowerBoundCostPerHour", cost),
        ("lowerBoundSizingCostPerHour", totals.get("sizingCostPerHour", cost)),
    ):
        bound = totals.get(name)
        if bound is not None and bound > reached + NEARLY * max(1, len(plan["nodeClaims"])):
            yield Finding("totals", name, f"{bound} is above what the plan costs, {reached}")
    for name, count in Counter(claim["name"] for claim in plan["nodeClaims"]).items():
        if count > 1:
            yield Finding("totals", name, f"{count} claims have this name")
    counts: Counter[str] = Counter(entry["pod"] for entry in plan["unschedulable"])
    for entry in (*plan["nodeClaims"], *plan["existingNodes"]):
        counts.update(entry["pods"])
    for key in sorted({*counts, *inputs.pending}):
        if key not in inputs.pending:
            yield Finding("pods", key, "is no pod that waits for a node")
        elif counts[key] != 1:
            yield Finding("pods", key, f"is in the plan {counts[key]} times")
    for entry in plan["unschedulable"]:
        if not str(entry.get("reason") or "").strip():
            yield Finding("pods", entry["pod"], "has no place, and no reason is given")
    for entry in plan["existingNodes"]:
        if entry["name"] not in inputs.nodes:
            yield Finding("nodes", entry["name"], "is no node that is there")
