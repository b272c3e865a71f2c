"""Writes a built-in table of list prices from the Pricing service: `.venv/bin/python -m cli.price_table REGION`.

It needs AWS credentials with the right pricing:GetProducts, of an account of the partition; an ordinary account also
gets the prices of GovCloud's regions. It is not a command of `tenon`, because the tables come with the image.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import boto3
import typer

import activities.ec2
from activities.clock import utc_now
from activities.ec2.client import pricing_region
from activities.ec2.price_list import list_prices
from activities.ec2.price_tables import FOLDER, built_in_table

TABLES = Path(activities.ec2.__file__).parent / FOLDER


def text_of(region: str, prices: Mapping[str, float], regions: Sequence[str], currency: str, as_of: date) -> str:
    """The table as a file, one line for each family, so that a change of prices shows as few lines."""
    families: dict[str, dict[str, float]] = {}
    for name, price in sorted(prices.items()):
        family, _, size = name.partition(".")
        families.setdefault(family, {})[size] = price
    head = {
        "source": f"List prices of {region} for Linux in shared tenancy, in {currency} an hour, from AWS's price list.",
        "asOf": as_of.isoformat(),
        "regions": list(regions),
        "currency": currency,
    }
    lines = [f" {json.dumps(key)}: {json.dumps(value)}," for key, value in head.items()]
    rows = [f"  {json.dumps(family)}: {json.dumps(sizes)}" for family, sizes in sorted(families.items())]
    return "\n".join(["{", *lines, ' "onDemand": {', ",\n".join(rows), " }", "}", ""])


def main(
    region: str,
    into: Annotated[Path, typer.Option(help="The folder of the tables.")] = TABLES,
    equal: Annotated[list[str] | None, typer.Option(help="Another region that has the same prices.")] = None,
) -> None:
    """Write the table of a region."""
    currency = built_in_table(region).currency
    prices = list_prices(boto3.client("pricing", region_name=pricing_region(region)), region, currency)
    if not prices:
        raise typer.BadParameter(f"AWS lists no prices in {currency} for {region}: correct the region")
    path = into / f"{region}.json"
    path.write_text(text_of(region, prices, [region, *(equal or [])], currency, utc_now().date()))
    print(f"{path}: {len(prices)} instance types")


if __name__ == "__main__":
    typer.run(main)
