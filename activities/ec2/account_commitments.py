"""Reads the account's Reserved Instances and Savings Plans, and what runs that they may cover."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any

from activities.ec2.client import Ec2
from activities.ec2.errors import translated
from tenon.apis import labels
from tenon.ec2.commitments.coverage import AccountCommitments, RunningInstance, allowed_commitments
from tenon.ec2.commitments.purchases import ACTIVE, LINUX, PLAN_KINDS, reserved_instances, savings_plan
from tenon.scheduling.model import Commitment

CACHE_SECONDS = 3600.0
"""How long what was bought counts. Few accounts buy more than once a month, and the rates of a plan are many pages."""
ALIVE = ["pending", "running"]
"""The states of instances that cost."""
PAGE = 1000
PLANS_PAGE = 100
RATES_PAGE = 1000


class AccountCommitmentsReader:
    """The commitments of one account in one region."""

    def __init__(
        self,
        clients: Ec2,
        vcpus: Callable[[], Mapping[str, int]],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``vcpus`` returns the vCPUs by instance type."""
        self._clients = clients
        self._vcpus = vcpus
        self._now = now
        self._clock = clock
        self._purchases: tuple[float, list[Commitment]] | None = None
        """With the time when they were read."""

    def read(self, cluster: str, own_ids: Collection[str]) -> AccountCommitments:
        """Read how much this cluster may use of each commitment. Blocking.

        Args:
            cluster: the name of the cluster; empty if it is that of its instances.
            own_ids: the IDs of the instances of its NodeClaims. Those launched meanwhile are known by their tags.

        Raises:
            EC2Error: AWS does not answer, or the worker has no right to read them.
        """
        purchases, vcpus = self._bought(), self._vcpus()
        running = self._running() if purchases else ()
        return allowed_commitments(purchases, running, own_ids, cluster, vcpus)

    def _bought(self) -> list[Commitment]:
        now = self._clock()
        if self._purchases is None or now >= self._purchases[0] + CACHE_SECONDS:
            self._purchases = (now, self._read_purchases())
        return self._purchases[1]

    def _read_purchases(self) -> list[Commitment]:
        names = self._vcpus().keys()
        filters: Any = [{"Name": "state", "Values": [ACTIVE]}]
        with translated("DescribeReservedInstances"):
            answer = self._clients.ec2.describe_reserved_instances(Filters=filters)
        commitments = reserved_instances(answer["ReservedInstances"], names, self._now())
        plans = sorted(
            self._plans(), key=lambda plan: (PLAN_KINDS.index(plan["savingsPlanType"]), plan["savingsPlanId"])
        )
        for plan in plans:
            commitment = savings_plan(plan, self._rates(plan["savingsPlanId"]), self._clients.region, names)
            if commitment is not None:
                commitments.append(commitment)
        return commitments

    def _plans(self) -> Iterator[dict[str, Any]]:
        request: dict[str, Any] = {"states": [ACTIVE], "maxResults": PLANS_PAGE}
        with translated("DescribeSavingsPlans"):
            while True:
                answer = self._clients.savingsplans.describe_savings_plans(**request)
                for plan in answer["savingsPlans"]:
                    elsewhere = plan.get("region") not in (None, "", self._clients.region)
                    if plan.get("savingsPlanType") in PLAN_KINDS and not elsewhere:
                        yield plan
                if not answer.get("nextToken"):
                    return
                request["nextToken"] = answer["nextToken"]

    def _rates(self, plan_id: str) -> Iterator[dict[str, Any]]:
        selected_values = {
            "region": self._clients.region,
            "productDescription": LINUX,
            "tenancy": "shared",
            "productType": "EC2",
        }
        request: dict[str, Any] = {
            "savingsPlanId": plan_id,
            "filters": [{"name": name, "values": [value]} for name, value in selected_values.items()],
            "maxResults": RATES_PAGE,
        }
        with translated("DescribeSavingsPlanRates"):
            while True:
                answer = self._clients.savingsplans.describe_savings_plan_rates(**request)
                yield from answer["searchResults"]
                if not answer.get("nextToken"):
                    return
                request["nextToken"] = answer["nextToken"]

    def _running(self) -> Iterator[RunningInstance]:
        with translated("DescribeInstances"):
            pages = self._clients.ec2.get_paginator("describe_instances").paginate(
                Filters=[{"Name": "instance-state-name", "Values": ALIVE}], PaginationConfig={"PageSize": PAGE}
            )
            for page in pages:
                for instance in (item for reservation in page["Reservations"] for item in reservation["Instances"]):
                    tags = [tag["Key"] for tag in instance.get("Tags", ())]
                    clusters = (
                        key.removeprefix(labels.TAG_OWNED_PREFIX)
                        for key in tags
                        if key.startswith(labels.TAG_OWNED_PREFIX)
                    )
                    yield RunningInstance(
                        instance["InstanceId"],
                        instance["InstanceType"],
                        instance["Placement"]["AvailabilityZone"],
                        is_on_demand=not instance.get("InstanceLifecycle")
                        and not instance.get("Platform")
                        and instance["Placement"].get("Tenancy", "default") == "default",
                        cluster=next(clusters, ""),
                        has_node_class=labels.TAG_NODECLASS in tags,
                    )
