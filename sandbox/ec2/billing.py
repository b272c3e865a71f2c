"""The bill of the account, as EC2's documents state it, so that a test can compare what the product says with it.

It knows nothing of the product. An instance is charged while it is running, by the second, for 60 seconds at least, at
the price of its market. A begun second counts. Spot capacity that EC2 reclaims in its first hour is free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from sandbox.ec2.instances import RECLAIMED, Machine
from sandbox.ec2.prices import PriceBook

MINIMUM_SECONDS = 60
SECONDS_AN_HOUR = 3600


@dataclass
class Line:
    """What one run of an instance costs."""

    instance: str
    type: str
    zone: str
    capacity_type: str
    price: Decimal
    """Dollars an hour."""
    tags: dict[str, str]
    started: float
    ended: float | None = None
    free: bool = False

    def seconds(self, now: float) -> int:
        """The seconds that are charged."""
        ran = (now if self.ended is None else self.ended) - self.started
        return 0 if self.free else max(MINIMUM_SECONDS, math.ceil(ran))

    def charge(self, now: float) -> Decimal:
        """Dollars."""
        return self.price * self.seconds(now) / SECONDS_AN_HOUR


@dataclass
class Billing:
    """The lines of the bill. It keeps those of instances that EC2 no longer shows."""

    prices: PriceBook
    lines: list[Line] = field(default_factory=list)

    def state_changed(self, machine: Machine, state: str, moment: float) -> None:
        """Start a line when an instance begins to run, and end it when it no longer does."""
        running = next((line for line in self.lines if line.instance == machine.id and line.ended is None), None)
        if state == "running" and running is None:
            kind, zone, capacity_type = machine.pool
            price = self.prices.price(capacity_type, kind, machine.tenancy) or 0.0
            tags = dict(machine.instance.ec2_backend.tags.get(machine.id) or {})
            line = Line(machine.id, kind, zone, capacity_type, Decimal(repr(price)), tags, moment)
            self.lines.append(line)
        elif state != "running" and running is not None:
            running.ended = moment
            is_reclaimed = machine.reason == RECLAIMED
            running.free = is_reclaimed and moment - running.started < SECONDS_AN_HOUR

    def listing(self, now: float) -> dict[str, Any]:
        """The lines, and their sum, with all digits."""
        return {
            "lines": [
                {
                    "instance": line.instance,
                    "type": line.type,
                    "zone": line.zone,
                    "capacity_type": line.capacity_type,
                    "price": str(line.price),
                    "seconds": line.seconds(now),
                    "running": line.ended is None,
                    "charge": f"{line.charge(now):f}",
                    "tags": line.tags,
                }
                for line in self.lines
            ],
            "total": f"{sum((line.charge(now) for line in self.lines), Decimal()):f}",
        }

    def clear(self) -> None:
        """Forget all, for a reset."""
        self.lines.clear()
