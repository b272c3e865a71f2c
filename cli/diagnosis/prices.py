"""Checks which prices the worker decides by: their source, what stands in for unknown ones, which types have none."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime

from activities.ec2.catalogue import Catalogue
from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error
from activities.ec2.price_tables import PriceTableError
from activities.ec2.pricing import Pricing
from cli.diagnosis.finding import Finding, fault, ok, warning
from worker.settings import Settings

GIVE = "give Tenon a table of list prices (docs/settings.md)"
MEND = f"allow the call, {GIVE}, or state the prices in a NodeOverlay: instance types are chosen by them"
STATE = f"{GIVE}, or state the prices in a NodeOverlay, if you want nodes of these types"


def check_prices(aws: Ec2, settings: Settings, now: Callable[[], datetime]) -> Finding:
    """Read the prices as a worker does when it starts. Blocks."""
    try:
        pricing = Pricing(aws, isolated=settings.isolated_vpc, table_path=settings.price_table, now=now)
    except PriceTableError as error:
        mend = "the worker does not start with this file: correct it, or leave PRICE_TABLE out"
        return fault("prices", f"PRICE_TABLE cannot be used: {error}", mend)
    _, prices = pricing.current()
    catalogue = Catalogue(aws, pricing)
    with contextlib.suppress(EC2Error):  # the check of rights names the refused call
        catalogue.warm()
    lacking = catalogue.unpriced_types()
    if unknown := pricing.warnings():
        sentences = [*unknown, lacking] if lacking and not pricing.is_listed else unknown
        return warning("prices", " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences), MEND)
    zones = len({zone for _, zone in prices.spot})
    sentence = (
        f"On-demand prices of {len(prices.on_demand)} instance types are from {pricing.list_source}, spot prices from "
        f"EC2 for {zones} zones; the worker reads them again every 12 hours."
    )
    sentence = f"{sentence} {lacking}." if lacking else sentence
    return ok("prices", sentence) if pricing.is_listed or not lacking else warning("prices", sentence, STATE)
