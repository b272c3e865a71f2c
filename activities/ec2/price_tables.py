"""Tables of list prices, for when the price list cannot be read: built-in ones, and a file of the operator's.

Prices differ between regions by a factor that is not the same for all families, and between China and elsewhere by the
currency too. So a region uses its own table if there is one, and otherwise one of its partition, which `Pricing` says.
Few regions have a built-in table, and it is as old as the image. `tenon prices` writes one for any region, which the
setting PRICE_TABLE gives to the worker.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from tenon.errors import TenonError

FOLDER = "data/prices"
OLD_AFTER = timedelta(days=180)
"""List prices rarely change, but AWS adds families of instance types every few months."""
MAX_SIZE = 2**20
"""Maximum size of a file in bytes: a ConfigMap holds no more. A table has about 50 KB."""
_STAND_INS = {"cn-": "cn-north-1", "us-gov-": "us-gov-west-1", "": "us-east-1"}
"""By how the names of a partition's regions begin: whose table a region without one uses."""


class PriceTableError(TenonError):
    """A file is not a table of list prices that the region can use. The message is one sentence."""


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
    dedicated: Mapping[str, float] = field(default_factory=dict)
    """The same in dedicated tenancy, without bare metal; empty if the table does not have them."""
    volumes: Mapping[str, float] = field(default_factory=dict)
    """The price of a GiB of EBS for a month, by volume type; empty if the table does not have them."""
    path: str = ""
    """The file that the operator gave; empty for a built-in table."""

    def __str__(self) -> str:
        source = f"the table of {self.region} in {self.path}" if self.path else f"the built-in table of {self.region}"
        return f"{source} (as of {self.as_of})"

    def is_old(self, today: date) -> bool:
        """Whether a newer table is worth writing."""
        return today - date.fromisoformat(self.as_of) > OLD_AFTER


def built_in_table(region: str) -> PriceTable:
    """The table for a region. Its ``regions`` do not have the region if it stands in for prices that are not known."""
    tables = _tables()
    own = (table for table in tables.values() if region in table.regions)
    stand_in = next(tables[name] for prefix, name in _STAND_INS.items() if region.startswith(prefix))
    return next(own, stand_in)


def read_table(path: str, region: str) -> PriceTable:
    """The table in a file, for a region.

    Raises:
        PriceTableError: the file cannot be read, is no table, or is one of another region or currency.
    """
    renew = f"write it with `tenon prices {region}`"
    try:
        with Path(path).open("rb") as file:
            raw = file.read(MAX_SIZE + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise PriceTableError(f"The file {path} cannot be read ({why}): {renew}.") from None
    if len(raw) > MAX_SIZE:
        raise PriceTableError(f"The file {path} is larger than {MAX_SIZE // 2**20} MiB: {renew}.")
    try:
        table = _table(json.loads(raw), path)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
        raise PriceTableError(f"The file {path} is no table of list prices: {renew}.") from None
    if not table.on_demand:
        raise PriceTableError(f"The table in the file {path} has no prices: {renew}.")
    if region not in table.regions:
        region_names = ", ".join(sorted(table.regions)[:3])
        raise PriceTableError(f"The file {path} has the prices of {region_names}, not of {region}: {renew}.")
    if table.currency != (currency := built_in_table(region).currency):
        raise PriceTableError(f"The prices in the file {path} are in {table.currency}, not in {currency}: {renew}.")
    return table


def table_text(table: PriceTable) -> str:
    """The table as a file, one line for each family, so that a change of prices shows as few lines."""
    head: dict[str, object] = {
        "source": f"List prices of {table.region} for Linux, in {table.currency} an hour, from AWS's price list.",
        "asOf": table.as_of,
        "regions": [table.region, *sorted(table.regions - {table.region})],
        "currency": table.currency,
    }
    if table.volumes:
        head["volumes"] = dict(sorted(table.volumes.items()))
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    dedicated = [f' "dedicated": {_families(table.dedicated)},'] if table.dedicated else []
    return "\n".join(["{", *lines, *dedicated, f' "onDemand": {_families(table.on_demand)}', "}", ""])


def _families(prices: Mapping[str, float]) -> str:
    families: dict[str, dict[str, float]] = {}
    for name, price in sorted(prices.items()):
        family, _, size = name.partition(".")
        families.setdefault(family, {})[size] = price
    rows = [f"  {json.dumps(family)}: {json.dumps(sizes)}" for family, sizes in sorted(families.items())]
    return "\n".join(["{", ",\n".join(rows), " }"])


@cache
def _tables() -> dict[str, PriceTable]:
    files = resources.files("activities.ec2").joinpath(FOLDER).iterdir()
    return {
        file.name.removesuffix(".json"): _table(json.loads(file.read_text()))
        for file in files
        if file.name.endswith(".json")
    }


def _table(written: Mapping[str, Any], path: str = "") -> PriceTable:
    regions = [str(region) for region in written["regions"]]
    return PriceTable(
        region=regions[0],
        as_of=date.fromisoformat(written["asOf"]).isoformat(),
        regions=frozenset(regions),
        currency=str(written["currency"]),
        on_demand=_prices(written["onDemand"]),
        dedicated=_prices(written.get("dedicated", {})),
        volumes=_positive(written.get("volumes", {})),
        path=path,
    )


def _prices(families: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    return _positive({f"{family}.{size}": price for family, sizes in families.items() for size, price in sizes.items()})


def _positive(written: Mapping[str, float]) -> dict[str, float]:
    prices = {name: float(price) for name, price in written.items()}
    if not all(math.isfinite(price) and price > 0 for price in prices.values()):
        raise ValueError("a price must be above 0")
    return prices
