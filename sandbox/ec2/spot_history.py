"""DescribeSpotPriceHistory from the price data file.

The file has one spot price per type. Every zone that offers the type gets it, as of the last full hour and with one
entry for each earlier hour requested.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from sandbox.ec2 import catalogue
from sandbox.ec2.describe import pattern
from sandbox.ec2.prices import PriceBook

PRODUCTS = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
HOURS = 24
"""Hours of price history."""


def history(
    prices: PriceBook,
    region: str,
    *,
    now: datetime,
    start: datetime | None = None,
    end: datetime | None = None,
    types: Iterable[str] = (),
    products: Iterable[str] = (),
    zone: str = "",
) -> list[dict[str, Any]]:
    """Prices by type, zone, product and hour, newest first. As in EC2, the price in effect at ``start`` is included."""
    wanted_types = set(types)
    wanted_products = [product for product in PRODUCTS if not list(products) or product in set(products)]
    newest = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    last = min(end or now, now)
    first = max(start or now - timedelta(hours=HOURS), now - timedelta(hours=HOURS))
    hours = [newest - timedelta(hours=back) for back in range(HOURS + 1)]
    in_force = max((hour for hour in hours if hour <= min(first, last)), default=hours[-1])
    stamps = [hour for hour in hours if in_force <= hour <= last]
    return [
        {
            "InstanceType": kind,
            "AvailabilityZone": place,
            "ProductDescription": product,
            "SpotPrice": price,
            "Timestamp": stamp,
        }
        for kind, place, price in _offers(prices, region)
        if (not wanted_types or kind in wanted_types) and (not zone or zone == place)
        for product in wanted_products
        for stamp in stamps
    ]


@lru_cache(maxsize=4)
def _offers(prices: PriceBook, region: str) -> tuple[tuple[str, str, str], ...]:
    """Type, zone and price of each offer, in order. Each page of a history is cut from all of them."""
    return tuple(
        (kind, place, f"{price:.6f}")
        for kind, place in sorted(catalogue.zonal_offerings(region))
        if (price := prices.price("spot", kind)) is not None
    )


READERS = {
    "availability-zone": "AvailabilityZone",
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
    "spot-price": "SpotPrice",
}


def matches(row: dict[str, Any], filters: dict[str, list[str]]) -> bool:
    """Whether a row matches the filters, whose names must all be in `READERS`."""
    return all(
        any(pattern(str(want)).fullmatch(row[READERS[name]]) for want in expectation)
        for name, expectation in filters.items()
    )
