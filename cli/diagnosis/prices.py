"""Checks which prices the worker decides by: their source, what stands in for unknown ones, which types have none."""

from __future__ import annotations

import contextlib

from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.pricing import Pricing
from cli.diagnosis.finding import Finding, ok, warning

MEND = "allow the call, or state the prices in a NodeOverlay: instance types are chosen by them"
STATE = "state their prices in a NodeOverlay if you want nodes of these types"


def check_prices(aws: Ec2, *, isolated: bool) -> Finding:
    """Read the prices as a worker does when it starts. Blocks. ``isolated``: the setting ISOLATED_VPC."""
    pricing = Pricing(aws, isolated=isolated)
    _, prices = pricing.current()
    if unknown := pricing.warnings():
        sentence = "; ".join(unknown)
        return warning("prices", f"{sentence[0].upper()}{sentence[1:]}.", MEND)
    catalogue = Catalogue(aws, pricing)
    with contextlib.suppress(EC2Error):  # the check of rights names the refused call
        catalogue.warm()
    lacking = catalogue.unpriced_types()
    zones = len({zone for _, zone in prices.spot})
    sentence = (
        f"On-demand prices of {len(prices.on_demand)} instance types are from {pricing.list_source}, spot prices from "
        f"EC2 for {zones} zones; the worker reads them again every 12 hours."
    )
    sentence = f"{sentence} {lacking}." if lacking else sentence
    return ok("prices", sentence) if pricing.is_listed or not lacking else warning("prices", sentence, STATE)
