"""The cost of a window in the format of FOCUS 1.2, the FinOps Open Cost and Usage Specification, for FinOps tools.

A row is what one workload, or idle room and the like, caused on one kind of instance of a NodePool on one day in UTC.
So a tool that adds them up gets the bill, and one that groups by tag gets the cost of a team. All costs of a row are
equal: Tenon knows the list price and the spot price at the launch, and no discounts.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from tenon.apis import labels
from tenon.cost.attribution import Attribution
from tenon.cost.bill import Lifetime
from tenon.cost.split import Consumer, ConsumerKind
from tenon.money import decimal_text

AWS = "AWS"
_UNITS = "Hours"
_QUANTITY_DIGITS = Decimal("1e-15")
"""So many that a quantity times its price is the cost to the nano-dollar."""
_NOTHING = ""
"""How CSV writes null."""

COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceSubcategory",
    "SkuId",
    "Tags",
    "x_CapacityType",
    "x_Cluster",
    "x_CostKind",
    "x_Namespace",
    "x_NodePool",
    "x_Workload",
)
"""All mandatory columns of the specification, those of the others that Tenon can fill, and at the end its own."""


@dataclass(frozen=True, slots=True)
class BillingAccount:
    """Who pays, and where the cluster is."""

    account: str
    cluster: str
    region: str
    currency: str = "USD"


class _Offer(NamedTuple):
    """What an instance is charged as."""

    instance_type: str
    zone: str
    capacity_type: str
    price: int


Attribute = Callable[[Sequence[Lifetime], datetime, datetime], Attribution]
"""Divides what some instances cost in a window."""


def focus_rows(
    lifetimes: Iterable[Lifetime], since: datetime, until: datetime, account: BillingAccount, attribute: Attribute
) -> Iterator[dict[str, str]]:
    """Yield the rows of a window. Instances without a known price have none."""
    by_offer: dict[_Offer, list[Lifetime]] = {}
    for lifetime in lifetimes:
        if lifetime.price:
            offer = _Offer(lifetime.instance_type, lifetime.zone, lifetime.capacity_type, lifetime.price)
            by_offer.setdefault(offer, []).append(lifetime)
    for start, end in _days(since, until):
        for offer in sorted(by_offer):
            amounts = attribute(by_offer[offer], start, end).amounts
            for (pool, consumer), amount in sorted(amounts.items()):
                yield _row(pool, consumer, amount, offer, start, end, account)


def to_csv(rows: Iterable[dict[str, str]]) -> str:
    """Return rows as CSV with a line of column names."""
    output = io.StringIO()
    writer = csv.DictWriter(output, fieldnames=COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return output.getvalue()


def _days(since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    start = since
    while start < until:
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        end = min(midnight, until)
        yield start, end
        start = end


def _month(moment: datetime) -> tuple[datetime, datetime]:
    """The billing period of a moment: the calendar month."""
    start = moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return start, (start + timedelta(days=32)).replace(day=1)


def _row(
    pool: str, consumer: Consumer, amount: int, offer: _Offer, start: datetime, end: datetime, account: BillingAccount
) -> dict[str, str]:
    cost, price = decimal_text(amount), decimal_text(offer.price)
    quantity = f"{(Decimal(amount) / offer.price).quantize(_QUANTITY_DIGITS).normalize():f}"
    month_start, month_end = _month(start)
    is_workload = consumer.kind in (ConsumerKind.PODS, ConsumerKind.DAEMONS)
    name = "/".join(filter(None, (consumer.namespace, consumer.workload))) if is_workload else pool
    cause = f"{name}, {consumer.kind}" if is_workload else f"{consumer.kind} room of NodePool {pool}"
    tags = {
        "cluster": account.cluster,
        "nodepool": pool,
        "namespace": consumer.namespace,
        "workload": consumer.workload,
        "kind": consumer.kind.value,
    }
    return {
        "AvailabilityZone": offer.zone,
        "BilledCost": cost,
        "BillingAccountId": account.account,
        "BillingAccountName": _NOTHING,
        "BillingCurrency": account.currency,
        "BillingPeriodEnd": _text(month_end),
        "BillingPeriodStart": _text(month_start),
        "ChargeCategory": "Usage",
        "ChargeClass": _NOTHING,
        "ChargeDescription": f"Share of {offer.capacity_type} {offer.instance_type} in {offer.zone}: {cause}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": _text(end),
        "ChargePeriodStart": _text(start),
        "ConsumedQuantity": quantity,
        "ConsumedUnit": _UNITS,
        "ContractedCost": cost,
        "ContractedUnitPrice": price,
        "EffectiveCost": cost,
        "InvoiceIssuerName": AWS,
        "ListCost": cost,
        "ListUnitPrice": price,
        "PricingCategory": "Dynamic" if offer.capacity_type == labels.SPOT else "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": _UNITS,
        "ProviderName": AWS,
        "PublisherName": AWS,
        "RegionId": account.region,
        "ResourceId": "/".join(filter(None, (account.cluster, pool, consumer.namespace, consumer.workload))),
        "ResourceName": name,
        "ResourceType": "Kubernetes workload" if is_workload else "Karpenter NodePool",
        "ServiceCategory": "Compute",
        "ServiceName": "Amazon Elastic Compute Cloud",
        "ServiceSubcategory": "Virtual Machines",
        "SkuId": offer.instance_type,
        "Tags": json.dumps({key: value for key, value in tags.items() if value}, sort_keys=True),
        "x_CapacityType": offer.capacity_type,
        "x_Cluster": account.cluster,
        "x_CostKind": consumer.kind.value,
        "x_Namespace": consumer.namespace,
        "x_NodePool": pool,
        "x_Workload": consumer.workload,
    }


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
