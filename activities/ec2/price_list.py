"""The on-demand prices of a region, and those of EBS volumes, as the Pricing service lists them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from activities.ec2.errors import translated

if TYPE_CHECKING:
    from types_boto3_pricing import PricingClient
    from types_boto3_pricing.type_defs import FilterTypeDef

VIRTUAL = "Compute Instance"
METAL = "Compute Instance (bare metal)"
STORAGE = "Storage"
_SHARED: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("Shared", VIRTUAL, {}),
    ("Dedicated", METAL, {"productFamily": METAL}),
)
"""Tenancy, product family and further filters. Bare metal is listed under dedicated tenancy, among other products."""


def list_prices(pricing: PricingClient, region: str, currency: str) -> dict[str, float]:
    """The price of an hour by instance type, in shared tenancy. Bare metal has one price, for both tenancies.

    Raises:
        EC2Error: the service refused a call or did not answer.
    """
    prices: dict[str, float] = {}
    for tenancy, family, further in _SHARED:
        prices.update(_read(pricing, region, currency, tenancy, family, further))
    return prices


def dedicated_prices(pricing: PricingClient, region: str, currency: str) -> dict[str, float]:
    """The price of an hour by instance type, in dedicated tenancy, without bare metal.

    Raises:
        EC2Error: the service refused a call or did not answer.
    """
    return dict(_read(pricing, region, currency, "Dedicated", VIRTUAL, {"productFamily": VIRTUAL}))


def volume_prices(pricing: PricingClient, region: str, currency: str) -> dict[str, float]:
    """The price of a GiB for a month by type of EBS volume, such as gp3.

    Raises:
        EC2Error: the service refused a call or did not answer.
    """
    prices: dict[str, float] = {}
    filters = _filters({"regionCode": region, "productFamily": STORAGE})
    for product in _products(pricing, filters):
        if product.get("product", {}).get("productFamily") == STORAGE:
            name = product["product"].get("attributes", {}).get("volumeApiName")
            prices.update((name, price) for price in _list_prices(product, currency) if name)
    return prices


def _read(
    pricing: PricingClient, region: str, currency: str, tenancy: str, family: str, further: Mapping[str, str]
) -> Iterator[tuple[str, float]]:
    term_filters = {
        "regionCode": region,
        "preInstalledSw": "NA",
        "operatingSystem": "Linux",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "tenancy": tenancy,
        **further,
    }
    for product in _products(pricing, _filters(term_filters)):
        yield from _product_price(product, family, currency)


def _filters(terms: Mapping[str, str]) -> list[FilterTypeDef]:
    return [{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in terms.items()]


def _products(pricing: PricingClient, filters: list[FilterTypeDef]) -> Iterator[dict[str, Any]]:
    with translated("GetProducts"):
        for page in pricing.get_paginator("get_products").paginate(ServiceCode="AmazonEC2", Filters=filters):
            for text in page["PriceList"]:
                yield json.loads(text)


def _product_price(product: Mapping[str, Any], family: str, currency: str) -> Iterator[tuple[str, float]]:
    """Yield instance type and price per hour from one price list entry of this product family, if it has a price."""
    described = product.get("product", {})
    if described.get("productFamily") != family:
        return
    name = described.get("attributes", {}).get("instanceType")
    if name:
        yield from ((name, price) for price in _list_prices(product, currency))


def _list_prices(product: Mapping[str, Any], currency: str) -> Iterator[float]:
    """Yield the list prices of an entry, without those that are free."""
    for term in product.get("terms", {}).get("OnDemand", {}).values():
        for dimension in term.get("priceDimensions", {}).values():
            price = float(dimension.get("pricePerUnit", {}).get(currency, 0))
            if price > 0:
                yield price
