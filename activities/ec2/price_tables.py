"""The built-in tables of list prices, for when the price list cannot be read. Few regions have one.

Prices differ between regions by a factor that is not the same for all families, and between China and elsewhere by the
currency too. So a region uses its own table if there is one, and otherwise one of its partition, which `Pricing` says.
`cli/price_table.py` writes a table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

FOLDER = "data/prices"
_STAND_INS = {"cn-": "cn-north-1", "us-gov-": "us-gov-west-1", "": "us-east-1"}
"""By how the names of a partition's regions begin: whose table a region without one uses."""


@dataclass(frozen=True, slots=True)
class PriceTable:
    """The list prices of a region."""

    region: str
    as_of: str
    """The date of the prices, such as 2026-07-20."""
    regions: frozenset[str]
    """The regions that have these prices."""
    currency: str
    on_demand: Mapping[str, float]
    """By instance type, for an hour."""

    def __str__(self) -> str:
        return f"the built-in table of {self.region} (as of {self.as_of})"


def built_in_table(region: str) -> PriceTable:
    """The table for a region. Its ``regions`` do not have the region if it stands in for prices that are not known."""
    known = _tables()
    own = (table for table in known.values() if region in table.regions)
    stand_in = next(known[name] for prefix, name in _STAND_INS.items() if region.startswith(prefix))
    return next(own, stand_in)


@cache
def _tables() -> dict[str, PriceTable]:
    files = resources.files("activities.ec2").joinpath(FOLDER).iterdir()
    return {
        (name := file.name.removesuffix(".json")): _table(name, json.loads(file.read_text()))
        for file in files
        if file.name.endswith(".json")
    }


def _table(region: str, written: Mapping[str, Any]) -> PriceTable:
    prices = {
        f"{family}.{size}": price for family, sizes in written["onDemand"].items() for size, price in sizes.items()
    }
    return PriceTable(region, written["asOf"], frozenset(written["regions"]), written["currency"], prices)
