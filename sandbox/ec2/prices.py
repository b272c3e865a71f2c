"""The prices of the sandbox's EC2: public list prices, and made-up prices of spot and dedicated instances.

A type without a price cannot be bought here, like a type that a region does not offer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sandbox.ec2.region import PARTITION, REGION

TABLES = Path(__file__).resolve().parents[2] / "activities" / "ec2" / "data" / "prices"
"""The public list prices, one file for each region that has one."""
SPOT_FILE = Path(__file__).parent / "data" / "spot.json"
OTHER_SHARE = 0.5
"""The share of the on-demand price that spot capacity of other families costs."""
DEDICATED_SHARE = 1.06
"""What dedicated instances cost more: made up, near to what AWS asks for common types."""


@dataclass(frozen=True, eq=False)  # so that what is computed from a book can be kept by book
class PriceBook:
    """Prices per hour by instance type, in the currency of the partition."""

    on_demand: dict[str, float] = field(default_factory=dict)
    spot: dict[str, float] = field(default_factory=dict)

    def price(self, capacity_type: str, instance_type: str, tenancy: str = "default") -> float | None:
        """The hourly price of a type. None if the type is not offered with this capacity type."""
        if capacity_type == "spot":
            return self.spot.get(instance_type)
        return self.dedicated(instance_type) if tenancy == "dedicated" else self.on_demand.get(instance_type)

    def dedicated(self, instance_type: str) -> float | None:
        """The hourly price of a dedicated instance. Bare metal costs the same in both tenancies."""
        price = self.on_demand.get(instance_type)
        return price if price is None or is_metal(instance_type) else round(price * DEDICATED_SHARE, 6)


def is_metal(instance_type: str) -> bool:
    """True if instances of the type are whole machines."""
    return instance_type.partition(".")[2].startswith("metal")


def read_prices(region: str = REGION, tables: Path = TABLES) -> PriceBook:
    """Read the price book of a region. A region without a table has the prices of another one of its partition.

    Raises:
        ValueError: a file is not a price file.
        OSError: a file cannot be read.
    """
    glob = {path.stem: _read(path, "regions", "onDemand") for path in tables.glob("*.json")}
    stand_in = {"aws-cn": "cn-north-1", "aws-us-gov": "us-gov-west-1"}.get(PARTITION, "us-east-1")
    table = next((item for item in glob.values() if region in item["regions"]), None) or glob[stand_in]
    on_demand = {
        f"{family}.{size}": float(price) for family, sizes in table["onDemand"].items() for size, price in sizes.items()
    }
    spot = _read(SPOT_FILE, "notSold", "share")
    shares, not_sold = spot["share"], frozenset(spot["notSold"])
    return PriceBook(
        on_demand=on_demand,
        spot={
            name: round(price * shares.get(name.partition(".")[0], OTHER_SHARE), 6)
            for name, price in on_demand.items()
            if name not in not_sold
        },
    )


def _read(path: Path, *needed: str) -> dict[str, Any]:
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or any(key not in data for key in needed):
        raise ValueError(f"{path} is not a price file: it needs {' and '.join(needed)}")
    return data
