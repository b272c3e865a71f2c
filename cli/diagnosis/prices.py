"""Checks which prices the worker decides by: their source, and what stands in for unknown ones."""

from __future__ import annotations

from activities.ec2.client import Ec2
from activities.ec2.pricing import Pricing
from cli.diagnosis.finding import Finding, ok, warning

MEND = "allow the call, or state the prices in a NodeOverlay: instance types are chosen by them"


def check_prices(aws: Ec2, *, isolated: bool) -> Finding:
    """Read the prices as a worker does when it starts. Blocks. ``isolated``: the setting ISOLATED_VPC."""
    pricing = Pricing(aws, isolated=isolated)
    _, prices = pricing.current()
    if unknown := pricing.warnings():
        sentence = "; ".join(unknown)
        return warning("prices", f"{sentence[0].upper()}{sentence[1:]}.", MEND)
    zones = len({zone for _, zone in prices.spot})
    return ok(
        "prices",
        f"On-demand prices of {len(prices.on_demand)} instance types are from {pricing.list_source}, spot prices from "
        f"EC2 for {zones} zones; the worker reads them again every 12 hours.",
    )
