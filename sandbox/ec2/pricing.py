"""The Pricing service's GetProducts, which the mock lacks: on-demand Linux prices in both tenancies.

Bare metal has a product family of its own, and is listed with dedicated tenancy only.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2 import catalogue, tokens
from sandbox.ec2.errors import Answer, aws_error, json_answer
from sandbox.ec2.prices import PriceBook, is_metal
from sandbox.ec2.region import CURRENCY, REGION

PAGE = 100
CONTENT_TYPE = "application/x-amz-json-1.1"


def answer(prices: PriceBook, action: str, body: bytes) -> Answer:
    """Handle one call of the Pricing service."""
    if action != "GetProducts":
        return aws_error("pricing", 400, "InvalidParameterException", f"This sandbox has no pricing action {action}")
    try:
        request = json.loads(body or b"{}")
        filters = {str(item["Field"]): str(item["Value"]) for item in request.get("Filters") or []}
        start = tokens.decode(request.get("NextToken"))
        size = tokens.page_size(request.get("MaxResults"), 1, PAGE)
    except EC2ClientError as error:
        return aws_error("pricing", 400, "InvalidNextTokenException", str(error.message))
    except (ValueError, KeyError, AttributeError, TypeError):
        return aws_error("pricing", 400, "InvalidParameterException", "The request is no GetProducts request")
    names = [
        (name, tenancy)
        for name in sorted(prices.on_demand)
        for tenancy in (("Dedicated",) if is_metal(name) else ("Dedicated", "Shared"))
        if request.get("ServiceCode") == "AmazonEC2" and _fits(_fields(name, tenancy), filters)
    ]
    page = names[start : start + size]
    content: dict[str, Any] = {
        "FormatVersion": "aws_v1",
        "PriceList": [_product(prices, *item) for item in page],
    }
    if start + size < len(names):
        content["NextToken"] = tokens.encode(start + size)
    return json_answer(200, content, CONTENT_TYPE)


def _fits(attributes: dict[str, str], expectation: dict[str, str]) -> bool:
    return all(attributes.get(name) == value for name, value in expectation.items())


def _family(name: str) -> str:
    return "Compute Instance (bare metal)" if is_metal(name) else "Compute Instance"


@cache
def _fields(name: str, tenancy: str) -> dict[str, str]:
    """What a request may filter by."""
    return {**_attributes(name, tenancy), "productFamily": _family(name)}


def _attributes(name: str, tenancy: str) -> dict[str, str]:
    kind = catalogue.describe_type(name) or {}
    return {
        "servicecode": "AmazonEC2",
        "instanceType": name,
        "regionCode": REGION,
        "location": "US West (Oregon)",
        "operatingSystem": "Linux",
        "tenancy": tenancy,
        "preInstalledSw": "NA",
        "capacitystatus": "Used",
        "marketoption": "OnDemand",
        "licenseModel": "No License required",
        "vcpu": str(kind.get("VCpuInfo", {}).get("DefaultVCpus", "")),
    }


@cache
def _product(prices: PriceBook, name: str, tenancy: str) -> str:
    """A product with its price, as JSON. It is kept, because every worker asks for all of them when it starts."""
    price = prices.price("on-demand", name, tenancy.lower())
    sku = "TENON" + "".join(letter for letter in f"{name}{tenancy}".upper() if letter.isalnum())
    term, rate = f"{sku}.JRTCKXETXF", f"{sku}.JRTCKXETXF.6YS6EN2CT7"
    dimension = {
        "unit": "Hrs",
        "pricePerUnit": {CURRENCY: f"{price:.10f}"},
        "description": f"{price} {CURRENCY} per {name}",
        "rateCode": rate,
    }
    product = {
        "serviceCode": "AmazonEC2",
        "product": {"productFamily": _family(name), "sku": sku, "attributes": _attributes(name, tenancy)},
        "terms": {"OnDemand": {term: {"sku": sku, "priceDimensions": {rate: dimension}}}},
    }
    return json.dumps(product)
