"""The AWS clients of one process. Build them once, because that costs more than a call. All threads share them."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import InvalidRegionError
from botocore.utils import parse_timestamp, validate_region_name

from activities import metrics
from activities.ec2 import last_check, request_metrics
from activities.ec2.errors import INVALID_REGION, CallStoppedError, EC2Error, translated
from activities.ec2.rate_limits import READING, Pacer
from activities.ec2.service_model import ServiceModelLoader
from activities.gate import Gate
from activities.tracing import aws_requests

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_eks import EKSClient
    from types_boto3_iam import IAMClient
    from types_boto3_pricing import PricingClient
    from types_boto3_sqs import SQSClient
    from types_boto3_ssm import SSMClient

GATED = ("ec2", "iam")
"""The services whose calls change instances or what launches need. A message of the interruption queue is deleted only
after it was handled, which then remains right.
"""


def pricing_region(region: str) -> str:
    """The region to ask for the prices of a region.

    The price list API exists in a few regions only. Each of them has the prices of all regions of its partition.
    """
    nearest = {"cn": "cn-northwest-1", "eu": "eu-central-1", "ap": "ap-south-1"}
    return nearest.get(region.partition("-")[0], "us-east-1")


class Ec2:
    """Clients for every AWS service that Tenon calls.

    The clients retry a few times quickly. Workflows do the long retries, because two layers of long retries would
    multiply. The endpoint is AWS's own, or that of AWS_ENDPOINT_URL.

    Raises:
        EC2Error: the region is not a possible name, or the agent of EKS Pod Identity does not give credentials. Other
            sources are asked at the first call.
    """

    def __init__(self, region: str, endpoint_url: str | None = None, gate: Gate | None = None) -> None:
        """``gate``: stops calls that change something while it is closed."""
        try:
            validate_region_name(region)
        except InvalidRegionError:
            raise EC2Error(INVALID_REGION, f"{region!r} is not the name of an AWS region") from None
        core = botocore.session.get_session()
        if gate is not None:
            # Sent after a call has waited for its turn, and before each of botocore's retries.
            core.register("before-send", partial(_pass, gate))
        request_metrics.attach(core)
        aws_requests.attach(core)
        core.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=instant)
        core.register_component("data_loader", ServiceModelLoader())
        session = boto3.Session(region_name=region, botocore_session=core)
        with translated("GetCredentials"):
            session.get_credentials()
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
        self.pacer = Pacer()
        self.pacer.attach(self.ec2)
        last_check.attach(self.ec2)
        self.eks: EKSClient = session.client("eks", **options)
        self.pricing: PricingClient = session.client("pricing", **{**options, "region_name": pricing_region(region)})
        self._session: Any = session
        self._options = options
        self._lock = Lock()

    @cached_property
    def ec2_without_retries(self) -> EC2Client:
        """A client of EC2 that sends each request once, for calls that EC2 would carry out twice. Few nodes need it."""
        once = self._options["config"].merge(Config(retries={"mode": "standard", "total_max_attempts": 1}))
        with self._lock:
            client: EC2Client = self._session.client("ec2", **{**self._options, "config": once})
        self.pacer.attach(client)
        return client

    @cached_property
    def ssm(self) -> SSMClient:
        """The client of Systems Manager, made when it is needed: only EC2NodeClasses need it."""
        client: SSMClient = self._client("ssm")
        return client

    @cached_property
    def iam(self) -> IAMClient:
        """The client of IAM, made when it is needed: only EC2NodeClasses need it."""
        client: IAMClient = self._client("iam")
        return client

    @cached_property
    def zonal_shift(self) -> Any:
        """The client of ARC's zonal shifts, made when it is needed: few clusters use them."""
        return self._client("arc-zonal-shift")

    @cached_property
    def service_quotas(self) -> Any:
        """The client of Service Quotas, made when it is needed: only the leader reads quotas."""
        return self._client("service-quotas")

    @cached_property
    def savingsplans(self) -> Any:
        """The client of Savings Plans, made when it is needed: few clusters use them."""
        return self._client("savingsplans")

    @cached_property
    def sqs(self) -> SQSClient:
        """The client of SQS, made when it is needed: most processes read no queue."""
        client: SQSClient = self._client("sqs")
        return client

    def _client(self, service: str) -> Any:
        """Make a client. A session must not do that in two threads at once."""
        with self._lock:
            return self._session.client(service, **self._options)


def _pass(gate: Gate, event_name: str, **_rest: Any) -> None:
    """Stop a call that changes something while the gate is closed.

    Raises:
        CallStoppedError: the gate is closed.
    """
    service, operation = event_name.split(".")[1:]
    if gate.why and service in GATED and not operation.startswith(READING):
        metrics.STOPPED_CALLS.labels(service).inc()
        raise CallStoppedError(operation, gate.why)


def instant(value: Any) -> datetime:
    """Parse a timestamp in an AWS answer.

    Nearly all timestamps are in ISO 8601, which the standard library parses many times faster than botocore. That
    matters because tens of thousands of spot prices take most of a worker's startup time.
    """
    if isinstance(value, str):
        try:
            parsed = datetime.fromisoformat(value)
        except ValueError:
            return parse_timestamp(value)
        if parsed.tzinfo is not None:
            return parsed
    return parse_timestamp(value)
