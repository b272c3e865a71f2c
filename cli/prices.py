"""``tenon prices``: prints a table of a region's list prices, for workers that cannot read the price list.

Clusters without a way to the Pricing service, as in an isolated VPC or GovCloud, plan with the prices of a table. This
command runs where the service can be reached, and the setting PRICE_TABLE gives its file to the worker. Spot prices
are not in it: they change within hours, and each worker reads them from EC2 itself.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from activities.clock import utc_now
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.price_list import dedicated_prices, list_prices, volume_prices
from activities.ec2.price_tables import PriceTable, built_in_table, table_text
from cli.application import create_app, examples
from cli.simulating.progress import show_progress

app = create_app()


@app.command(
    epilog=examples(
        "tenon prices eu-central-1 > prices.json",
    )
)
def prices(
    region: Annotated[str | None, typer.Argument(help="The region. Default: $AWS_REGION.")] = None,
    equal: Annotated[
        list[str] | None, typer.Option(metavar="REGION", help="Another region that has the same prices; repeatable.")
    ] = None,
) -> None:
    """Print a table of a region's list prices, for the worker's setting PRICE_TABLE.

    It reads AWS's price list. That needs credentials with the right pricing:GetProducts, of any account of the
    partition; for the regions of GovCloud, of an ordinary account.
    """
    region = region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise typer.BadParameter("name the region, such as eu-central-1, or set AWS_REGION")
    try:
        with show_progress(f"Reading the list prices of {region} ..."):
            table = _read(region, equal or [])
    except EC2Error as error:
        print(f"The list prices of {region} cannot be read: {error.explained.rstrip('.')}.", file=sys.stderr)
        raise typer.Exit(2) from None
    if not table.on_demand:
        print(f"AWS lists no prices in {table.currency} for {region}: correct the region.", file=sys.stderr)
        raise typer.Exit(2)
    print(table_text(table), end="")
    print(
        f"{len(table.on_demand)} instance types, {len(table.dedicated)} of them also in dedicated tenancy",
        file=sys.stderr,
    )


def _read(region: str, equal: list[str]) -> PriceTable:
    pricing, currency = Ec2(region).pricing, built_in_table(region).currency
    return PriceTable(
        region,
        utc_now().date().isoformat(),
        frozenset([region, *equal]),
        currency,
        list_prices(pricing, region, currency),
        dedicated_prices(pricing, region, currency),
        volume_prices(pricing, region, currency),
    )
