"""Finds subnets and security groups by a node class's selector terms, and counts the free addresses of subnets."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from activities.ec2.client import Ec2
from activities.ec2.errors import EC2Error, translated
from tenon.apis.ec2nodeclass import EC2NodeClass, SecurityGroup, Subnet

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import FilterTypeDef, SubnetTypeDef

FREE_SECONDS = 30.0
"""Cache TTL of a count of free addresses. Launches since it was read are subtracted from it."""
EXPECTED_SECONDS = 60.0
"""How long the addresses of a new node's pods are subtracted from EC2's count. By then EC2 counts them itself."""
FULL_SECONDS = 180.0
"""How long a subnet counts as full after EC2 refused a launch in it, whatever its count says (AWS-033): with address
prefixes, single addresses may be free that no node can use."""


def tag_filters(tags: Mapping[str, str]) -> list[FilterTypeDef]:
    """EC2 filters that require all of these tags; ``*`` matches any value."""
    return [
        {"Name": "tag-key", "Values": [key]} if value == "*" else {"Name": f"tag:{key}", "Values": [value]}
        for key, value in tags.items()
    ]


class Network:
    """Reads the subnets and security groups of the account. Thread-safe."""

    def __init__(self, clients: Ec2, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._clock = clock
        self._lock = threading.Lock()
        self._free: dict[str, tuple[float, int]] = {}
        self._full_until: dict[str, float] = {}
        self._expected: dict[str, tuple[float, Mapping[str, int]]] = {}
        """Client token of a launch to the time until when its addresses count, and how many those are by subnet; the
        oldest first."""
        self._expected_in = Counter[str]()
        """The sums of these by subnet."""

    def subnets(self, node_class: EC2NodeClass) -> list[Subnet]:
        """The subnets that the class's terms select, those with the most free addresses first."""
        subnets_by_id: dict[str, SubnetTypeDef] = {}
        for term in node_class.spec.subnet_selector_terms:
            filters = tag_filters(term.tags)
            if term.id is not None:
                filters = [{"Name": "subnet-id", "Values": [term.id]}]
            subnets_by_id.update({subnet["SubnetId"]: subnet for subnet in self._subnets(filters)})
        self._remember(subnets_by_id.values())
        ordered = sorted(
            subnets_by_id.values(), key=lambda subnet: (-subnet["AvailableIpAddressCount"], subnet["SubnetId"])
        )
        return [
            Subnet(id=subnet["SubnetId"], zone=subnet["AvailabilityZone"], zone_id=subnet.get("AvailabilityZoneId"))
            for subnet in ordered
        ]

    def security_groups(self, node_class: EC2NodeClass) -> list[SecurityGroup]:
        """The security groups that the class's terms select, sorted by id."""
        groups_by_id: dict[str, SecurityGroup] = {}
        for term in node_class.spec.security_group_selector_terms:
            filters = tag_filters(term.tags)
            if term.id is not None:
                filters = [{"Name": "group-id", "Values": [term.id]}]
            elif term.name is not None:
                filters = [{"Name": "group-name", "Values": [term.name]}]
            with translated("DescribeSecurityGroups"):
                for page in self._clients.ec2.get_paginator("describe_security_groups").paginate(Filters=filters):
                    for group in page["SecurityGroups"]:
                        groups_by_id[group["GroupId"]] = SecurityGroup(id=group["GroupId"], name=group.get("GroupName"))
        return [groups_by_id[group_id] for group_id in sorted(groups_by_id)]

    def free_addresses(self, subnet_ids: Collection[str]) -> dict[str, int]:
        """Subnet id to its number of free addresses, at most half a minute old. Deleted subnets are left out.

        The addresses that the pods of new nodes will use are subtracted, so that a burst of launches does not choose
        the same subnet. They may turn out fewer, so they never make a subnet full.
        """
        oldest = self._clock() - FREE_SECONDS
        with self._lock:
            stale = [subnet_id for subnet_id in subnet_ids if self._free.get(subnet_id, (float("-inf"), 0))[0] < oldest]
        if stale:
            self._remember(self._subnets([{"Name": "subnet-id", "Values": sorted(stale)}]))
        now = self._clock()
        with self._lock:
            self._full_until = {subnet_id: until for subnet_id, until in self._full_until.items() if until > now}
            while self._expected and next(iter(self._expected.values()))[0] <= now:
                self._replace(next(iter(self._expected)), None)
            free_by_subnet = {
                subnet_id: 0 if subnet_id in self._full_until else self._free[subnet_id][1]
                for subnet_id in subnet_ids
                if subnet_id in self._free
            }
            return {
                subnet_id: max(free - self._expected_in[subnet_id], min(free, 1))
                for subnet_id, free in free_by_subnet.items()
            }

    def expect(self, token: str, addresses: Mapping[str, int]) -> None:
        """Subtract the addresses that a launch may use from now on, in each subnet that EC2 may choose for it."""
        with self._lock:
            self._replace(token, None)
            self._replace(token, (self._clock() + EXPECTED_SECONDS, addresses))

    def settle(self, token: str, subnet_id: str) -> None:
        """Subtract the launch from the cached count of its subnet, and give back what it does not use in the others.

        ``subnet_id`` is empty if nothing was launched.
        """
        with self._lock:
            until, addresses = self._expected.get(token, (0.0, {}))
            used = (until, {subnet_id: addresses[subnet_id]}) if subnet_id in addresses else None
            self._replace(token, used)
            if subnet_id in self._free:
                read_at, free = self._free[subnet_id]
                self._free[subnet_id] = (read_at, max(free - 1, 0))

    def mark_full(self, subnet_id: str) -> None:
        """Record that EC2 refused a launch in the subnet for lack of addresses."""
        with self._lock:
            self._full_until[subnet_id] = self._clock() + FULL_SECONDS

    def _replace(self, token: str, expected: tuple[float, Mapping[str, int]] | None) -> None:
        """Change what is known of a launch. It keeps its place among the others."""
        _, before = self._expected.get(token, (0.0, {}))
        self._expected_in.subtract(before)
        if expected is None:
            self._expected.pop(token, None)
            return
        self._expected[token] = expected
        self._expected_in.update(expected[1])

    def _remember(self, subnets: Iterable[SubnetTypeDef]) -> None:
        now = self._clock()
        with self._lock:
            for subnet in subnets:
                self._free[subnet["SubnetId"]] = (now, subnet["AvailableIpAddressCount"])

    def _subnets(self, filters: list[FilterTypeDef]) -> list[SubnetTypeDef]:
        try:
            with translated("DescribeSubnets"):
                pages = self._clients.ec2.get_paginator("describe_subnets").paginate(Filters=filters)
                return [subnet for page in pages for subnet in page["Subnets"]]
        except EC2Error as error:
            if error.code == "InvalidSubnetID.NotFound":
                return []
            raise
