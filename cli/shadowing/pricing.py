"""Prices of the cluster's region: AWS's if it answers, or those of a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from cli.fleet_view.node_prices import aws_prices, table_prices
from cli.shadowing.inputs import Inputs
from tenon.apis import labels
from tenon.kube.records import NodeRecord
from tenon.shadow.prices import sold_in

BUILT_IN_REGION = "us-west-2"
REFRESH_SECONDS = 3600.0


def region_and_zones(nodes: Iterable[NodeRecord]) -> tuple[str, set[str]]:
    """Return where the nodes are. The region is empty if none says it."""
    region, zones = "", set()
    for node in nodes:
        region = region or node.labels.get(labels.REGION, "")
        if zone := node.labels.get(labels.ZONE):
            zones.add(zone)
    return region, zones


def priced(inputs: Inputs, region: str, zones: set[str], *, ask_aws: bool) -> Inputs:
    """Return the inputs with the prices of the region now. It blocks for seconds, so call it in a thread.

    A catalogue that the user named stays as it is, and so does the built-in one in its own region without AWS.

    Raises:
        PriceTableError: the file that PRICE_TABLE names cannot be used.
    """
    if not inputs.is_built_in or not region or not zones:
        return inputs
    prices = aws_prices(region) if ask_aws else table_prices(region)
    from_aws = bool(prices.prices.spot)
    if not from_aws and region == BUILT_IN_REGION:
        return inputs
    notes = list(prices.notes)
    if not from_aws:
        notes.append("Spot prices are estimates: the usual part of the on-demand price")
    return replace(inputs, types=sold_in(inputs.plain_types, region, zones, prices.prices), price_notes=notes)
