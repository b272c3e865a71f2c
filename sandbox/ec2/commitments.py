"""Reserved Instances and Savings Plans, which the mock does not have: DescribeReservedInstances of EC2, and the two
calls of the Savings Plans service that say what was bought and at which rates.

The Savings Plans service also lists rates of other operating systems, tenancies and usage, as AWS's does, so that a
client that does not select them computes with wrong ones.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from moto.ec2.exceptions import EC2ClientError

from sandbox.ec2 import tokens
from sandbox.ec2.authorization.identities import ACCOUNT
from sandbox.ec2.describe import pattern
from sandbox.ec2.errors import Answer, aws_error, json_answer
from sandbox.ec2.prices import PriceBook
from sandbox.ec2.region import PARTITION, REGION
from tenon.errors import TenonError

SERVICE = "savingsplans"
ACTIONS = ("DescribeSavingsPlans", "DescribeSavingsPlanRates")
TERM = timedelta(days=365)
SHARE = 0.6
"""What a Savings Plan asks for a type, as a share of its on-demand price: made up."""
MOST_RESULTS = 1000
_RESERVED_FILTERS = {
    "availability-zone": "AvailabilityZone",
    "instance-type": "InstanceType",
    "reserved-instances-id": "ReservedInstancesId",
    "scope": "Scope",
    "state": "State",
}
_RATE_FILTERS = ("region", "instanceType", "productDescription", "tenancy", "productType", "usageType")
_PRODUCTS = {"Linux/UNIX": 1.0, "Windows": 1.9}
"""By product, the factor of its rate: made up."""


@dataclass
class Plan:
    """One Savings Plan."""

    commitment: float
    """Dollars an hour."""
    kind: str = "Compute"
    family: str = ""
    """Of an EC2Instance plan."""
    state: str = "active"
    id: str = field(default_factory=lambda: str(uuid4()))
    start: datetime = field(default_factory=lambda: datetime.now(UTC))


class _RefusedError(TenonError):
    """A call that the service does not accept, with its code."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Commitments:
    """What the account has bought."""

    def __init__(self, prices: PriceBook) -> None:
        self._prices = prices
        self._reserved: list[dict[str, Any]] = []
        self._plans: dict[str, Plan] = {}

    def clear(self) -> None:
        """Forget all, for a reset."""
        self._reserved.clear()
        self._plans.clear()

    def reserve(self, instance_type: str, count: int, zone: str = "", product: str = "Linux/UNIX") -> str:
        """Buy Reserved Instances, for a zone or else for the region. Return their ID."""
        if instance_type not in self._prices.on_demand:
            raise ValueError(f"EC2 sells no {instance_type}")
        now = datetime.now(UTC)
        row = {
            "ReservedInstancesId": str(uuid4()),
            "InstanceType": instance_type,
            "InstanceCount": count,
            "Scope": "Availability Zone" if zone else "Region",
            "ProductDescription": product,
            "InstanceTenancy": "default",
            "OfferingClass": "standard",
            "OfferingType": "No Upfront",
            "State": "active",
            "Start": now,
            "End": now + TERM,
            "Duration": int(TERM.total_seconds()),
            "CurrencyCode": "USD",
            "FixedPrice": 0.0,
            "UsagePrice": 0.0,
        }
        self._reserved.append(row | ({"AvailabilityZone": zone} if zone else {}))
        return str(row["ReservedInstancesId"])

    def commit(self, commitment: float, family: str = "") -> str:
        """Buy a Savings Plan of so many dollars an hour, for a family or else for all compute. Return its ID."""
        plan = Plan(commitment, "EC2Instance" if family else "Compute", family)
        self._plans[plan.id] = plan
        return plan.id

    def reserved_instances(self, ids: Iterable[str], filters: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
        """The answer to DescribeReservedInstances.

        Raises:
            EC2ClientError: an ID does not exist, or EC2 does not have the filter.
        """
        reserved_ids = list(ids)
        for missing in set(reserved_ids) - {row["ReservedInstancesId"] for row in self._reserved}:
            raise EC2ClientError(
                "InvalidReservationID.NotFound", f"The reserved instance ID '{missing}' does not exist"
            )
        rows = [row for row in self._reserved if not reserved_ids or row["ReservedInstancesId"] in reserved_ids]
        for name, values in filters.items():
            if name not in _RESERVED_FILTERS:
                raise EC2ClientError("InvalidParameterValue", f"The filter '{name}' is invalid")
            patterns = [pattern(str(value)) for value in values]
            key = _RESERVED_FILTERS[name]
            rows = [row for row in rows if any(p.fullmatch(str(row.get(key, ""))) for p in patterns)]
        return rows

    def answer(self, action: str, body: bytes) -> Answer:
        """Handle one call of the Savings Plans service."""
        try:
            request = json.loads(body or b"{}")
            if action == "DescribeSavingsPlans":
                return json_answer(200, self._describe_plans(request))
            if action == "DescribeSavingsPlanRates":
                return json_answer(200, self._describe_rates(request))
        except ValueError as error:
            return aws_error(SERVICE, 400, "ValidationException", str(error))
        except _RefusedError as error:
            return aws_error(SERVICE, 404, error.code, str(error))
        except EC2ClientError as error:
            return aws_error(SERVICE, 400, "ValidationException", str(error.description))
        return aws_error(SERVICE, 404, "UnknownOperationException", f"Savings Plans have no action {action}")

    def _describe_plans(self, request: dict[str, Any]) -> dict[str, Any]:
        states = request.get("states") or ["active"]
        plans = [plan for _, plan in sorted(self._plans.items()) if plan.state in states]
        return _page("savingsPlans", [_description(plan) for plan in plans], request)

    def _describe_rates(self, request: dict[str, Any]) -> dict[str, Any]:
        plan = self._plans.get(str(request.get("savingsPlanId")))
        if plan is None:
            raise _RefusedError("ResourceNotFoundException", f"No Savings Plan {request.get('savingsPlanId')} exists")
        filters = {str(item["name"]): set(item["values"]) for item in request.get("filters") or ()}
        if unknown := filters.keys() - set(_RATE_FILTERS):
            raise ValueError(f"Value '{min(unknown)}' at 'filters.name' failed to satisfy constraint: {_RATE_FILTERS}")
        rows = [row for row in self._rates(plan) if all(_value(row, name) in filters[name] for name in filters)]
        return {"savingsPlanId": plan.id, **_page("searchResults", rows, request)}

    def _rates(self, plan: Plan) -> Iterator[dict[str, Any]]:
        for name, price in sorted(self._prices.on_demand.items()):
            family = name.partition(".")[0]
            if plan.family not in ("", family):
                continue
            for product, factor in _PRODUCTS.items():
                for tenancy, usage, more in (
                    ("shared", "BoxUsage", 1.0),
                    ("shared", "UnusedBox", 1.0),
                    ("dedicated", "DedicatedUsage", 1.1),
                ):
                    properties = {
                        "region": REGION,
                        "instanceType": name,
                        "instanceFamily": family,
                        "productDescription": product,
                        "tenancy": tenancy,
                    }
                    yield {
                        "rate": f"{price * SHARE * factor * more:.5f}",
                        "currency": "USD",
                        "unit": "Hrs",
                        "productType": "EC2",
                        "serviceCode": "AmazonEC2",
                        "usageType": f"{usage}:{name}",
                        "operation": "RunInstances" if product == "Linux/UNIX" else "RunInstances:0002",
                        "properties": [{"name": key, "value": value} for key, value in properties.items()],
                    }
        if not plan.family:
            yield {
                "rate": "0.02",
                "currency": "USD",
                "unit": "Hrs",
                "productType": "Fargate",
                "serviceCode": "AmazonEKS",
                "usageType": "Fargate-vCPU-Hours:perCPU",
                "operation": "",
                "properties": [{"name": "region", "value": REGION}],
            }


def _description(plan: Plan) -> dict[str, Any]:
    place = {"region": REGION, "ec2InstanceFamily": plan.family} if plan.family else {}
    return {
        "offeringId": str(uuid4()),
        "savingsPlanId": plan.id,
        "savingsPlanArn": f"arn:{PARTITION}:savingsplans::{ACCOUNT}:savingsplan/{plan.id}",
        "description": f"1 year No Upfront {plan.kind} Savings Plan",
        "start": plan.start.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "end": (plan.start + TERM).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "state": plan.state,
        "savingsPlanType": plan.kind,
        "paymentOption": "No Upfront",
        "productTypes": ["EC2"] if plan.family else ["EC2", "Fargate", "Lambda"],
        "currency": "USD",
        "commitment": f"{plan.commitment:.8f}",
        "upfrontPaymentAmount": "0.0",
        "recurringPaymentAmount": f"{plan.commitment:.8f}",
        "termDurationInSeconds": int(TERM.total_seconds()),
        "tags": {},
        **place,
    }


def _value(row: Mapping[str, Any], name: str) -> str:
    if name in ("productType", "usageType"):
        return str(row[name])
    return next((str(item["value"]) for item in row["properties"] if item["name"] == name), "")


def _page(name: str, rows: list[dict[str, Any]], request: Mapping[str, Any]) -> dict[str, Any]:
    start = tokens.decode(request.get("nextToken"))
    end = start + tokens.page_size(request.get("maxResults"), 1, MOST_RESULTS)
    more = {"nextToken": tokens.encode(end)} if end < len(rows) else {}
    return {name: rows[start:end], **more}
