"""Service Quotas' ListServiceQuotas, which the mock lacks for EC2: the vCPU quotas that fleets are refused by."""

from __future__ import annotations

import json
from typing import Any

from sandbox.ec2 import tokens
from sandbox.ec2.errors import Answer, aws_error, json_answer
from sandbox.ec2.quotas import Quotas
from sandbox.ec2.region import REGION

SERVICE = "servicequotas"
PAGE = 10
"""Quotas in a page, so that a client must ask for the next one."""
CONTENT_TYPE = "application/x-amz-json-1.1"


def answer(quotas: Quotas, action: str, body: bytes) -> Answer:
    """Handle one call of Service Quotas."""
    if action != "ListServiceQuotas":
        return aws_error(SERVICE, 400, "IllegalArgumentException", f"This sandbox has no action {action}")
    request = json.loads(body or b"{}")
    if request.get("ServiceCode") != "ec2":
        return aws_error(SERVICE, 400, "NoSuchResourceException", "This sandbox has only the quotas of ec2")
    start = tokens.decode(request.get("NextToken"))
    listed = sorted(quotas.limits().items())
    content: dict[str, Any] = {"Quotas": [_quota(code, limit) for code, limit in listed[start : start + PAGE]]}
    if start + PAGE < len(listed):
        content["NextToken"] = tokens.encode(start + PAGE)
    return json_answer(200, content, CONTENT_TYPE)


def _quota(code: str, limit: int) -> dict[str, Any]:
    return {
        "ServiceCode": "ec2",
        "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)",
        "QuotaArn": f"arn:aws:servicequotas:{REGION}:123456789012:ec2/{code}",
        "QuotaCode": code,
        "QuotaName": code,
        "Value": float(limit),
        "Unit": "None",
        "Adjustable": True,
        "GlobalQuota": False,
    }
