"""What nodes cost: EC2's prices if AWS answers, or else those of a table.

The answer of AWS takes seconds, and many people who watch a cluster have no AWS credentials. So the view begins with
the prices of a table.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from activities.ec2.price_tables import PriceTable, PriceTableError, built_in_table, read_table
from tenon.ec2.types.instance_types import Prices

DEFAULT_REGION = "us-east-1"


@dataclass(frozen=True, slots=True)
class NodePrices:
    """Prices, and what a reader must know about them."""

    prices: Prices
    notes: Sequence[str] = ()
    volumes: Mapping[str, float] = field(default_factory=dict)
    """Dollars a GiB-month of EBS by volume type; empty if they were not asked for, or are not known."""


def region_of(node_region: str) -> str:
    """Return the region of the prices: that of the nodes, or else of the environment."""
    return node_region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or DEFAULT_REGION


def table_prices(region: str) -> NodePrices:
    """Return the prices of the file that PRICE_TABLE names, or else of a built-in table. It has no spot prices.

    Raises:
        PriceTableError: the file cannot be used.
    """
    path = os.environ.get("PRICE_TABLE", "")
    table = read_table(path, region) if path else built_in_table(region)
    return NodePrices(Prices(on_demand=table.on_demand), [_table_note(table, region)], table.volumes)


def _table_note(table: PriceTable, region: str) -> str:
    other = (
        "" if region in table.regions else f", because {region} has no table here: `tenon prices {region}` writes one"
    )
    spot = "spot nodes cost what they cost at launch, if their NodeClaims say it"
    return f"Prices are list prices from {table}{other}; {spot}"


def aws_prices(region: str, *, with_volumes: bool = False) -> NodePrices:
    """Return list prices and spot prices as AWS says them. It blocks for seconds, so call it in a thread.

    ``with_volumes``: also those of EBS volumes.
    """
    from activities.ec2.client import Ec2
    from activities.ec2.errors import EC2Error
    from activities.ec2.pricing import Pricing

    path = os.environ.get("PRICE_TABLE", "")
    try:
        pricing = Pricing(Ec2(region), table_path=path)
        _, prices = pricing.current()
    except (EC2Error, PriceTableError):
        return table_prices(region)
    if not prices.spot and not pricing.is_listed:
        return table_prices(region)
    volumes = pricing.volumes() if with_volumes else {}
    return NodePrices(prices, [_sentence(warning) for warning in pricing.warnings()], volumes)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
