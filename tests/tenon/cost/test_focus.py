"""The export obeys the FinOps Open Cost and Usage Specification, version 1.2, and adds up to the bill."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest

from tenon.cost.attribution import Attribution, attribute
from tenon.cost.bill import Lifetime
from tenon.cost.focus import COLUMNS, BillingAccount, focus_rows, to_csv
from tenon.money import NANOS, nanos
from tests.tenon.cost.ledger import a_lifetime, a_measurement, a_row

MANDATORY = {
    "BilledCost": False,
    "BillingAccountId": False,
    "BillingAccountName": True,
    "BillingCurrency": False,
    "BillingPeriodEnd": False,
    "BillingPeriodStart": False,
    "ChargeCategory": False,
    "ChargeClass": True,
    "ChargeDescription": True,
    "ChargePeriodEnd": False,
    "ChargePeriodStart": False,
    "ContractedCost": False,
    "EffectiveCost": False,
    "InvoiceIssuerName": False,
    "ListCost": False,
    "PricingQuantity": True,
    "PricingUnit": True,
    "ProviderName": False,
    "PublisherName": False,
    "ServiceCategory": False,
    "ServiceName": False,
}
"""The columns whose feature level is Mandatory in specification/columns/ of FOCUS 1.2, and whether they allow nulls."""
OTHERS = {
    "AvailabilityZone": True,
    "ChargeFrequency": False,
    "ConsumedQuantity": True,
    "ConsumedUnit": True,
    "ContractedUnitPrice": True,
    "ListUnitPrice": True,
    "PricingCategory": True,
    "RegionId": True,
    "ResourceId": True,
    "ResourceName": True,
    "ResourceType": True,
    "ServiceSubcategory": False,
    "SkuId": True,
    "Tags": True,
}
"""Columns of other feature levels."""
NUMERIC = ("BilledCost", "ContractedCost", "EffectiveCost", "ListCost", "PricingQuantity", "ConsumedQuantity")
PRICES = ("ListUnitPrice", "ContractedUnitPrice")
TIMES = ("BillingPeriodEnd", "BillingPeriodStart", "ChargePeriodEnd", "ChargePeriodStart")
ALLOWED = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"", "Correction"},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other"},
    "ServiceCategory": {"Compute"},
    "ServiceSubcategory": {"Virtual Machines"},
}
SINCE = datetime(2026, 1, 30, 18, tzinfo=UTC)
UNTIL = SINCE + timedelta(days=3)
LIFETIMES = [
    a_lifetime("i-1", price=nanos(0.0968), launched_at=SINCE - timedelta(days=9)),
    a_lifetime("i-2", price=nanos(0.0317), capacity_type="spot", launched_at=SINCE + timedelta(hours=1)),
    a_lifetime("i-3", price=nanos(1.7), pool="gpu", launched_at=SINCE, ended_at=SINCE + timedelta(seconds=7)),
    a_lifetime("i-4", price=None),
]
ENTRIES = [
    a_measurement(
        SINCE,
        UNTIL - timedelta(days=1),
        a_row("shop", 0.7, workload="Deployment/web, the first"),
        a_row("kube-system", 0.1, of="daemons", workload="DaemonSet/cni"),
        a_row("", 0.2, of="idle"),
    )
]


def divided(lifetimes: Sequence[Lifetime], since: datetime, until: datetime) -> Attribution:
    return attribute(lifetimes, ENTRIES, since, until)


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    account = BillingAccount("123456789012", "test", "us-west-2")
    text = to_csv(focus_rows(LIFETIMES, SINCE, UNTIL, account, divided))
    return list(csv.DictReader(io.StringIO(text)))


def test_all_mandatory_columns_are_there_and_own_columns_come_last(rows: list[dict[str, str]]) -> None:
    assert list(rows[0]) == list(COLUMNS)
    own = [column for column in COLUMNS if column.startswith("x_")]
    assert list(COLUMNS[-len(own) :]) == own
    standard = set(COLUMNS) - set(own)
    assert standard >= MANDATORY.keys()
    assert standard == MANDATORY.keys() | OTHERS.keys()


def test_only_columns_that_allow_it_are_null(rows: list[dict[str, str]]) -> None:
    for row in rows:
        for column, may_be_null in (MANDATORY | OTHERS).items():
            assert row[column] or may_be_null, column
        for column in ("PricingQuantity", "PricingUnit", "ListUnitPrice", "ResourceId"):
            assert row[column], "a usage has it"


def test_values_have_the_formats_of_the_specification(rows: list[dict[str, str]]) -> None:
    for row in rows:
        for column in (*NUMERIC, *PRICES):
            assert re.fullmatch(r"[0-9]+(\.[0-9]+)?", row[column]), (column, row[column])
        for column in TIMES:
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", row[column]), column
        for column, values in ALLOWED.items():
            assert row[column] in values, column
        assert re.fullmatch("[A-Z]{3}", row["BillingCurrency"])
        tags = json.loads(row["Tags"])
        assert all(isinstance(value, str) and value for value in tags.values())


def test_a_quantity_times_its_price_is_the_cost(rows: list[dict[str, str]]) -> None:
    for row in rows:
        product = Decimal(row["PricingQuantity"]) * Decimal(row["ListUnitPrice"])
        assert round(product * NANOS) == Decimal(row["ListCost"]) * NANOS


def test_charge_periods_lie_in_their_billing_period_and_are_at_most_a_day(rows: list[dict[str, str]]) -> None:
    periods = {(row["ChargePeriodStart"], row["ChargePeriodEnd"], row["BillingPeriodStart"]) for row in rows}
    assert sorted(periods) == [
        ("2026-01-30T18:00:00Z", "2026-01-31T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-02-01T00:00:00Z", "2026-02-02T00:00:00Z", "2026-02-01T00:00:00Z"),
        ("2026-02-02T00:00:00Z", "2026-02-02T18:00:00Z", "2026-02-01T00:00:00Z"),
    ]
    assert all(row["ChargePeriodEnd"] <= row["BillingPeriodEnd"] for row in rows)


@pytest.mark.parametrize("column", ["BilledCost", "EffectiveCost", "ListCost", "ContractedCost"])
def test_the_rows_add_up_to_the_bill(rows: list[dict[str, str]], column: str) -> None:
    bill = sum(map(partial(Lifetime.cost, since=SINCE, until=UNTIL), LIFETIMES))
    assert sum(Decimal(row[column]) for row in rows) * NANOS == bill


def test_rows_say_who_caused_the_cost_and_how_it_was_priced(rows: list[dict[str, str]]) -> None:
    first = [row for row in rows if row["ChargePeriodStart"] == "2026-01-31T00:00:00Z"]
    assert [(row["x_CostKind"], row["ResourceName"], row["PricingCategory"]) for row in first] == [
        ("daemons", "kube-system/DaemonSet/cni", "Standard"),
        ("idle", "pool", "Standard"),
        ("pods", "shop/Deployment/web, the first", "Standard"),
        ("daemons", "kube-system/DaemonSet/cni", "Dynamic"),
        ("idle", "pool", "Dynamic"),
        ("pods", "shop/Deployment/web, the first", "Dynamic"),
    ]
    assert json.loads(first[2]["Tags"]) == {
        "cluster": "test",
        "kind": "pods",
        "namespace": "shop",
        "nodepool": "pool",
        "workload": "Deployment/web, the first",
    }
    assert {row["x_CostKind"] for row in rows if row["x_NodePool"] == "gpu"} == {"unmeasured"}
