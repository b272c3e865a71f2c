"""The EC2 market: who sells what where, for how much, and how much is left.

A pool is one way to buy: (instance type, zone, capacity type). Capacity is without limit until an operator says
otherwise; a rule that leaves fields open covers every pool that fits, each pool with its own count, and the newest
rule that fits wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from sandbox.ec2.prices import PriceBook

Pool = tuple[str, str, str]


@dataclass(frozen=True)
class CapacityRule:
    """``available`` instances in each pool that fits; None lifts the limit. A None field fits everything."""

    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    available: int | None = 0

    def covers(self, pool: Pool) -> bool:
        """Whether the rule speaks of a pool."""
        wanted = (self.instance_type, self.zone, self.capacity_type)
        return all(want is None or want == have for want, have in zip(wanted, pool, strict=True))


@dataclass(frozen=True)
class Offer:
    """One row of a fleet request as the market sees it."""

    index: int
    pool: Pool
    price: float
    priority: float | None = None


class Market:
    """Prices and what is left in each pool."""

    def __init__(self, prices: PriceBook) -> None:
        self.prices = prices
        self._rules: list[CapacityRule] = []
        self._taken: dict[tuple[int, Pool], int] = {}
        self._lock = Lock()

    def set_capacity(self, rule: CapacityRule) -> None:
        """Adds a rule that outranks the earlier ones."""
        with self._lock:
            self._rules.append(rule)

    def clear_capacity(self) -> None:
        """Makes every pool unlimited again."""
        with self._lock:
            self._rules.clear()
            self._taken.clear()

    def rules(self) -> list[CapacityRule]:
        """The rules in force, oldest first."""
        with self._lock:
            return list(self._rules)

    def take(self, pool: Pool, wanted: int) -> int:
        """Takes up to ``wanted`` instances out of a pool and says how many there were."""
        with self._lock:
            number = self._rule_number(pool)
            if number is None:
                return wanted
            taken = self._taken.get((number, pool), 0)
            got = max(0, min(wanted, (self._rules[number].available or 0) - taken))
            self._taken[number, pool] = taken + got
            return got

    def give_back(self, pool: Pool, count: int = 1) -> None:
        """Returns terminated instances to a limited pool."""
        with self._lock:
            number = self._rule_number(pool)
            if number is not None:
                self._taken[number, pool] = max(0, self._taken.get((number, pool), 0) - count)

    def left(self, pool: Pool) -> int | None:
        """How many instances a pool still has, None without limit."""
        with self._lock:
            number = self._rule_number(pool)
            if number is None:
                return None
            return max(0, (self._rules[number].available or 0) - self._taken.get((number, pool), 0))

    def _rule_number(self, pool: Pool) -> int | None:
        for number in range(len(self._rules) - 1, -1, -1):
            if self._rules[number].covers(pool):
                return None if self._rules[number].available is None else number
        return None

    def order(self, offers: list[Offer], strategy: str, wanted: int) -> list[Offer]:
        """The order in which a fleet tries offers.

        ``prioritized`` follows Priority (lowest number first); strategies that weigh capacity put pools that can
        serve the whole wish first; everything else goes by price. Ties keep the caller's order.
        """

        def short(offer: Offer) -> bool:
            left = self.left(offer.pool)
            return left is not None and left < wanted

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
