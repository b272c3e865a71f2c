"""The prices of the sandbox's EC2, read once from the project's price data file.

A type without a price cannot be bought here, like a type that a region does not offer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

PRICE_FILE = Path(__file__).resolve().parents[2] / "activities" / "ec2" / "data" / "prices.json"


@dataclass(frozen=True)
class PriceBook:
    """Dollars per hour by instance type."""

    on_demand: dict[str, float] = field(default_factory=dict)
    spot: dict[str, float] = field(default_factory=dict)

    def price(self, capacity_type: str, instance_type: str) -> float | None:
        """The hourly price of a type. None if the type is not offered with this capacity type."""
        return (self.spot if capacity_type == "spot" else self.on_demand).get(instance_type)


def read_prices(path: Path = PRICE_FILE) -> PriceBook:
    """Read the price book from a data file.

    Raises:
        ValueError: the file is not a price file.
        OSError: the file cannot be read.
    """
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or not isinstance(data.get("onDemand"), dict):
        raise ValueError(
            f'{path} is no price file: it needs "onDemand" (and "spot") objects of type to dollars an hour'
        )
    return PriceBook(
        on_demand={name: float(usd) for name, usd in data["onDemand"].items()},
        spot={name: float(usd) for name, usd in data.get("spot", {}).items()},
    )
