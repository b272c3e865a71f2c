"""Reads the account's vCPU quotas, and what its instances use of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from activities.ec2.client import Ec2
from activities.ec2.errors import translated
from tenon.apis import labels
from tenon.ec2.refusals.known_quotas import QUOTA_CODES, KnownQuotas, known_quotas

RUNNING = ["pending", "running"]
"""The states of instances that count."""
PAGE = 1000
CAPACITY_BLOCK = "capacity-block"


class AccountQuotas:
    """The vCPU quotas of one account and region."""

    def __init__(self, clients: Ec2, vcpus: Callable[[], Mapping[str, int]], now: Callable[[], datetime]) -> None:
        """``vcpus`` returns the vCPUs by instance type."""
        self._clients = clients
        self._vcpus = vcpus
        self._now = now

    def read(self) -> KnownQuotas:
        """Read quotas and instances. Blocking.

        Raises:
            EC2Error: AWS does not answer, or the worker has no right to read them.
        """
        limits = self._limits()
        read_at = self._now()
        return known_quotas(limits, self._running(), self._vcpus(), read_at)

    def _limits(self) -> dict[str, float]:
        with translated("ListServiceQuotas"):
            pages = self._clients.service_quotas.get_paginator("list_service_quotas").paginate(ServiceCode="ec2")
            return {
                quota["QuotaCode"]: quota["Value"]
                for page in pages
                for quota in page["Quotas"]
                if quota["QuotaCode"] in QUOTA_CODES
            }

    def _running(self) -> Iterator[tuple[str, str]]:
        """Type and capacity type of the instances that count: dedicated ones and capacity blocks have other quotas."""
        with translated("DescribeInstances"):
            pages = self._clients.ec2.get_paginator("describe_instances").paginate(
                Filters=[{"Name": "instance-state-name", "Values": RUNNING}], PaginationConfig={"PageSize": PAGE}
            )
            for page in pages:
                for instance in (item for reservation in page["Reservations"] for item in reservation["Instances"]):
                    lifecycle = instance.get("InstanceLifecycle", "")
                    if instance["Placement"].get("Tenancy", "default") != "default" or lifecycle == CAPACITY_BLOCK:
                        continue
                    yield instance["InstanceType"], labels.SPOT if lifecycle == "spot" else labels.ON_DEMAND
