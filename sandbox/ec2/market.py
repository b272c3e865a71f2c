"""The EC2 market: the price and the remaining capacity of each pool.

A pool is one way to buy: (instance type, zone, capacity type). Capacity is unlimited until an operator adds a rule. A
rule with open fields covers every matching pool, each with its own count. The newest matching rule wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Any

from sandbox.ec2.prices import PriceBook

Pool = tuple[str, str, str]


@dataclass(frozen=True)
class CapacityRule:
    """``available`` instances in each matching pool. None removes the limit. A field that is None matches
    everything.
    """

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    available: int | None = 0

    def covers(self, pool: Pool) -> bool:
        """Whether the rule matches a pool."""
        instance_types = (self.instance_type, self.zone, self.capacity_type)
        return all(want is None or want == have for want, have in zip(instance_types, pool, strict=True))


@dataclass(frozen=True)
class Offer:
    """One offer of a fleet request."""

    index: int
    pool: Pool
    price: float
    priority: float | None = None
    reservation: Any = None
    """The capacity reservation that it takes a place in; None for the open market."""
    group: Any = None
    """The placement group of its instances."""


class Market:
    """Prices, and the remaining capacity of each pool."""

    def __init__(self, prices: PriceBook) -> None:
        self.prices = prices
        self._rules: list[CapacityRule] = []
        self._used_places: dict[tuple[int, Pool], int] = {}
        self._lock = Lock()

    def set_capacity(self, rule: CapacityRule) -> None:
        """Add a rule that takes precedence over earlier ones."""
        with self._lock:
            self._rules.append(rule)

    def clear_capacity(self) -> None:
        """Make every pool unlimited again."""
        with self._lock:
            self._rules.clear()
            self._used_places.clear()

    def rules(self) -> list[CapacityRule]:
        """The active rules, oldest first."""
        with self._lock:
            return list(self._rules)

    def take(self, pool: Pool, expectation: int) -> int:
        """Take up to ``expectation`` instances out of a pool. Returns how many there were."""
        with self._lock:
            number = self._rule_number(pool)
            if number is None:
                return expectation
            occupancy = self._used_places.get((number, pool), 0)
            result = max(0, min(expectation, (self._rules[number].available or 0) - occupancy))
            self._used_places[number, pool] = occupancy + result
            return result

    def give_back(self, pool: Pool, count: int = 1) -> None:
        """Return terminated instances to a limited pool."""
        with self._lock:
            number = self._rule_number(pool)
            if number is not None:
                self._used_places[number, pool] = max(0, self._used_places.get((number, pool), 0) - count)

    def left(self, pool: Pool) -> int | None:
        """How many instances a pool still has. None if it is unlimited."""
        with self._lock:
            number = self._rule_number(pool)
            if number is None:
                return None
            return max(0, (self._rules[number].available or 0) - self._used_places.get((number, pool), 0))

    def _rule_number(self, pool: Pool) -> int | None:
        for number in range(len(self._rules) - 1, -1, -1):
            if self._rules[number].covers(pool):
                return None if self._rules[number].available is None else number
        return None

    def order(self, offers: list[Offer], strategy: str, expectation: int) -> list[Offer]:
        """The order in which a fleet tries offers.

        ``prioritized`` follows Priority (lowest number first). Strategies that consider capacity put pools that can
        serve the whole request first. All others sort by price. Ties keep the caller's order.
        """

        def short(offer: Offer) -> bool:
            remainder = self.left(offer.pool)
            return remainder is not None and remainder < expectation

        def priority(offer: Offer) -> float:
            return float("inf") if offer.priority is None else offer.priority

        match strategy:
            case "prioritized":
                return sorted(offers, key=lambda offer: (priority(offer), offer.price, offer.index))
            case "capacity-optimized-prioritized":
                return sorted(offers, key=lambda offer: (short(offer), priority(offer), offer.price, offer.index))
            case "price-capacity-optimized" | "capacity-optimized":
                return sorted(offers, key=lambda offer: (short(offer), offer.price, offer.index))
            case _:
                return sorted(offers, key=lambda offer: (offer.price, offer.index))
