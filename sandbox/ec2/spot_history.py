"""DescribeSpotPriceHistory from the price data file.

The file has one spot price per type. Every zone that offers the type gets it, as of the last full hour and with one
entry for each earlier hour requested.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
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
    rows = []
    for kind, place in sorted(catalogue.zonal_offerings(region)):
        price = prices.price("spot", kind)
        if price is None or (wanted_types and kind not in wanted_types) or (zone and zone != place):
            continue
        rows += [
            {
                "InstanceType": kind,
                "AvailabilityZone": place,
                "ProductDescription": product,
                "SpotPrice": f"{price:.6f}",
                "Timestamp": stamp,
            }
            for product in wanted_products
            for stamp in stamps
        ]
    return rows


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
