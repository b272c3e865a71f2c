"""A region that offers few types. Reading all 800 takes seconds, and few tests are about that.

As a program, it is the sandbox's EC2 of such a region, for tests that need a process for each.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

from sandbox.ec2.prices import PriceBook
from sandbox.ec2.region import REGION

Value = TypeVar("Value")
FAMILIES = frozenset({"c5", "c6g", "g4dn", "inf2", "m5", "m5a", "m6i", "m7g", "t3", "t4g"})
"""What it offers."""


def few(by_type: dict[str, Value]) -> dict[str, Value]:
    """The entries of the types that the region offers."""
    return {name: value for name, value in by_type.items() if name.partition(".")[0] in FAMILIES}


def offer_few_types(replace: Callable[[Any, str, Any], None]) -> None:
    """Reduce the sandbox's catalogue and its prices; ``replace`` sets an attribute."""
    from sandbox.ec2 import catalogue, prices, server

    regional, zonal, read = catalogue.regional_types, catalogue.zonal_offerings, prices.read_prices

    def few_regional(region: str) -> dict[str, Any]:
        return few(regional(region))

    def few_zonal(region: str) -> frozenset[tuple[str, str]]:
        return frozenset(pair for pair in zonal(region) if pair[0].partition(".")[0] in FAMILIES)

    def few_prices(region: str = REGION) -> PriceBook:
        book = read(region)
        return PriceBook(few(book.on_demand), few(book.spot))

    for module in (prices, server):
        replace(module, "read_prices", few_prices)
    replace(catalogue, "regional_types", few_regional)
    replace(catalogue, "zonal_offerings", few_zonal)


if __name__ == "__main__":
    from sandbox.ec2.server import main

    offer_few_types(setattr)
    sys.exit(main())
