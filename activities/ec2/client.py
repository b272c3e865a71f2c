"""The AWS clients of one process: built once, because that costs more than a call, and shared by all threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_eks import EKSClient
    from types_boto3_iam import IAMClient
    from types_boto3_pricing import PricingClient
    from types_boto3_ssm import SSMClient

PRICING_REGION = "us-east-1"
"""The price list is served in few regions only; every one of them knows all."""


class Ec2:
    """Clients for every AWS service that Tenon calls.

    Few fast retries here, the long wait is the workflow's: two layers of patience would multiply. The endpoint is
    AWS's own, or that of AWS_ENDPOINT_URL.
    """

    def __init__(self, region: str, endpoint_url: str | None = None) -> None:
        session = boto3.Session(region_name=region)
        config = Config(
            retries={"mode": "standard", "total_max_attempts": 3},
            connect_timeout=5,
            read_timeout=30,
            max_pool_connections=64,
            user_agent_extra="tenon",
        )
        options: dict[str, Any] = {"config": config}
        if endpoint_url:
            options["endpoint_url"] = endpoint_url
        self.region = region
        self.ec2: EC2Client = session.client("ec2", **options)
        self.ssm: SSMClient = session.client("ssm", **options)
        self.iam: IAMClient = session.client("iam", **options)
        self.eks: EKSClient = session.client("eks", **options)
        self.pricing: PricingClient = session.client("pricing", **{**options, "region_name": PRICING_REGION})
